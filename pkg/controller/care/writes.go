// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Members connects to the members of an Etcd.
type Members interface {
	// Member returns a client of the member in a pod. The error names the part of the credentials that cannot be used.
	Member(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error)
}

// allowWrites ends a rejection of writes of an Etcd that is not being deleted. The operator makes a cluster reject writes before it deletes the
// volumes. A full snapshot that a sidecar took meanwhile contains the rejection, and so does a cluster that is restored from it. Such a
// snapshot cannot be followed by delta snapshots. Therefore its Lease is reset: the etcd controller requests full snapshots until the Lease
// records one, and the condition BackupReady is not True before. A sidecar may record such a snapshot until the members accept writes.
// The Lease is therefore reset before that, with an annotation that makes observers ignore what it records, and again afterwards, without the
// annotation. If the operator stops or fails between the two, the annotation requests the second reset.
func (r *Reconciler) allowWrites(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	rejects := o.Etcd.HasWriteRejection()
	if r.Members == nil || !rejects && !o.FullSnapshotLease.AwaitsReset {
		return nil
	}
	if failure := o.Failure(etcdcluster.SectionLeases); failure != "" {
		return fmt.Errorf("reading the Lease of full snapshots, which is reset before the members accept writes again: %s", failure)
	}
	// A deletion that has begun since the cache was read may have made the cluster reject writes.
	current := &druidv1alpha1.Etcd{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(etcd), current); err != nil {
		return client.IgnoreNotFound(err)
	}
	if current.UID != etcd.UID || current.DeletionTimestamp != nil {
		return nil
	}
	// Only members that respond report a rejection. Without a healthy one it may continue, although none is observed.
	i := slices.IndexFunc(o.Pods, func(pod etcdcluster.Pod) bool {
		status := o.Etcd.Endpoint(pod.Ordinal)

		return !pod.Deleting && status != nil && status.Healthy
	})
	if i < 0 {
		return nil
	}
	if !rejects {
		return r.resetFullSnapshotLease(ctx, etcd, missedReset)
	}
	member, err := r.Members.Member(ctx, etcd, o.Pods[i])
	if err != nil {
		return err
	}
	if err := r.resetFullSnapshotLease(ctx, etcd, firstReset); err != nil {
		return err
	}
	if err := member.AllowWrites(ctx); err != nil {
		return err
	}
	r.Recorder.Eventf(current, nil, corev1.EventTypeNormal, "WritesAllowed", actionCare, "The members accept writes again: their data is from a snapshot or a volume of an Etcd that was being deleted, while etcd rejected writes")

	return r.resetFullSnapshotLease(ctx, etcd, secondReset)
}

// leaseReset is one of the two resets of the Lease of full snapshots.
type leaseReset int

const (
	// firstReset precedes the end of the rejection: what the Lease records until the second reset does not count.
	firstReset leaseReset = iota
	// secondReset follows the end of the rejection.
	secondReset
	// missedReset is a second reset in a later reconciliation. The cache may be stale: the Lease is reset only if it still awaits that.
	missedReset
)

// resetFullSnapshotLease recreates the Lease of full snapshots without a snapshot. If a configured store has no Lease, the first reset creates
// it, because one that the etcd controller creates lacks the annotation. It creates none while an Etcd is suspended.
func (r *Reconciler) resetFullSnapshotLease(ctx context.Context, etcd *druidv1alpha1.Etcd, reset leaseReset) error {
	lease, isFirst := &coordinationv1.Lease{}, reset == firstReset
	switch err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.FullSnapshotLeaseName(etcd)}, lease); {
	case apierrors.IsNotFound(err) && isFirst && helper.IsStoreConfigured(etcd):
		return r.createAwaitingLease(ctx, etcd)
	case err != nil:
		return client.IgnoreNotFound(err)
	case reset == missedReset && !etcdcluster.LeaseFor(lease).AwaitsReset:
		return nil
	}
	if err := r.Client.Delete(ctx, lease, client.Preconditions{UID: new(lease.UID)}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("resetting Lease %s: %w", lease.Name, err)
	}
	empty := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: lease.Namespace, Name: lease.Name, Labels: lease.Labels, Annotations: lease.Annotations, OwnerReferences: lease.OwnerReferences,
	}}
	if isFirst {
		metav1.SetMetaDataAnnotation(&empty.ObjectMeta, druidv1alpha1.LeaseAnnotationAwaitsReset, "true")
	} else {
		delete(empty.Annotations, druidv1alpha1.LeaseAnnotationAwaitsReset)
	}
	// The etcd controller may have created the Lease, without the annotation. Another reconciliation then resets that one.
	if err := r.Client.Create(ctx, empty); err != nil && (isFirst || !apierrors.IsAlreadyExists(err)) {
		return fmt.Errorf("recreating Lease %s: %w", lease.Name, err)
	}

	return nil
}

// createAwaitingLease creates a missing Lease of full snapshots as the etcd controller does, but with the annotation. The etcd controller
// records the store on it.
func (r *Reconciler) createAwaitingLease(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	lease := componentetcd.NewSnapshotLease(etcd, helper.FullSnapshotLeaseName(etcd))
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, druidv1alpha1.LeaseAnnotationAwaitsReset, "true")
	if err := r.Client.Create(ctx, lease); err != nil {
		return fmt.Errorf("creating Lease %s before the members accept writes again: %w", lease.Name, err)
	}

	return nil
}
