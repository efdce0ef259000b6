// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// ensureLeases creates the leases that do not exist. The sidecar fills and owns what is in them, except for the holder that Maintain writes
// first. A lease of a previous Etcd of the same name is deleted and recreated, never adopted. Its holder is the sidecar's evidence that a
// member was part of this cluster. A lease of anything else, such as another Etcd, is refused.
func (r *Reconciler) ensureLeases(ctx context.Context, etcd *druidv1alpha1.Etcd, leases []*coordinationv1.Lease) error {
	for _, lease := range leases {
		if err := r.ensureLease(ctx, etcd, lease); err != nil {
			return fmt.Errorf("writing Lease %s: %w", lease.Name, err)
		}
	}
	return nil
}

func (r *Reconciler) ensureLease(ctx context.Context, etcd *druidv1alpha1.Etcd, desired *coordinationv1.Lease) error {
	current := &coordinationv1.Lease{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(desired), current)
	if apierrors.IsNotFound(err) {
		if err = r.Client.Create(ctx, desired.DeepCopy()); !apierrors.IsAlreadyExists(err) {
			return err
		}
		// The cache holds only Leases with the operator's label: this one has none, or the cache lags behind.
		err = r.Reader.Get(ctx, client.ObjectKeyFromObject(desired), current)
	}
	if err != nil {
		return err
	}

	switch {
	case helper.IsOwned(current, etcd):
		return r.ensureLabels(ctx, current, desired.Labels)
	case !helper.IsOwnedByPrevious(current, etcd):
		return target.RefuseForeign(druidv1alpha1.ErrorCodeSyncMemberLease, etcd, "Lease "+current.Name)
	}
	if err := r.checkCurrent(ctx, etcd); err != nil {
		return err
	}
	if err := r.Client.Delete(ctx, current, client.Preconditions{UID: &current.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting that of a previous Etcd: %w", err)
	}
	return r.Client.Create(ctx, desired.DeepCopy())
}

// checkCurrent fails for an Etcd that a newer one of its name has replaced. The newer one owns the objects that seem to belong to a
// previous one.
func (r *Reconciler) checkCurrent(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	current := &druidv1alpha1.Etcd{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(etcd), current); err != nil {
		return fmt.Errorf("reading the Etcd: %w", err)
	}
	if current.UID != etcd.UID {
		return apierrors.NewConflict(schema.GroupResource{Group: druidv1alpha1.SchemeGroupVersion.Group, Resource: "etcds"}, etcd.Name, errors.New("it has another UID"))
	}
	return nil
}

func (r *Reconciler) ensureLabels(ctx context.Context, lease *coordinationv1.Lease, labels map[string]string) error {
	before := lease.DeepCopy()
	lease = lease.DeepCopy()
	changed := false
	for key, value := range labels {
		if lease.Labels[key] != value {
			metav1.SetMetaDataLabel(&lease.ObjectMeta, key, value)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return r.Client.Patch(ctx, lease, client.MergeFrom(before))
}

// Maintain implements engine.Executor. It records an attempt to take a full snapshot that has ended. It writes into the Leases of voting
// members who they are, as their sidecars do some ten seconds after the promotion. Members that were stopped before that would never be
// started together.
func (r *execution) Maintain(ctx context.Context, run *engine.Run, withoutHolder []etcdcluster.Member) error {
	if run.Observation.SnapshotAttempts.Unrecorded {
		if err := r.recordAttempts(ctx, run.Target.Etcd, &run.Observation, run.Observation.State.Snapshot.StartedAt); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
		}
	}
	for _, member := range withoutHolder {
		if err := r.writeLeaseHolder(ctx, run.Target.Etcd, member); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeSyncMemberLease, fmt.Errorf("writing the member's id into Lease %s: %w", member.Name, err))
		}
	}
	return nil
}

func (r *Reconciler) writeLeaseHolder(ctx context.Context, etcd *druidv1alpha1.Etcd, member etcdcluster.Member) error {
	lease := &coordinationv1.Lease{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: member.Name}, lease); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(lease, etcd) || ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		return nil
	}
	before := lease.DeepCopy()
	lease.Spec.HolderIdentity = new(etcdcluster.Heartbeat{MemberID: member.Listed.ID, Role: druidv1alpha1.EtcdRoleMember}.String())
	err := r.Client.Patch(ctx, lease, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) { // the sidecar was faster
		return nil
	}
	return client.IgnoreNotFound(err)
}

// deleteSnapshotLeases removes the leases of a store that is no longer used.
func (r *Reconciler) deleteSnapshotLeases(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	for _, name := range []string{helper.FullSnapshotLeaseName(etcd), helper.DeltaSnapshotLeaseName(etcd)} {
		lease := &coordinationv1.Lease{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: name}, lease); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return err
		}
		if !helper.IsManagedFor(lease, etcd) {
			continue
		}
		if err := r.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Lease %s: %w", name, err)
		}
	}
	return nil
}
