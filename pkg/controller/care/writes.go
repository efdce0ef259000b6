// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
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
// records one, and the condition FullSnapshotReady is not True before. It is reset before, in case the operator stops, and afterwards, because a
// snapshot may have been taken between the two.
func (r *Reconciler) allowWrites(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	if r.Members == nil || !o.Etcd.HasWriteRejection() {
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
	for _, pod := range o.Pods {
		if status := o.Etcd.Endpoint(pod.Ordinal); pod.Deleting || status == nil || !status.Healthy {
			continue
		}
		member, err := r.Members.Member(ctx, etcd, pod)
		if err != nil {
			return err
		}
		if err := r.resetFullSnapshotLease(ctx, etcd); err != nil {
			return err
		}
		if err := member.AllowWrites(ctx); err != nil {
			return err
		}
		r.Recorder.Eventf(current, nil, corev1.EventTypeNormal, "WritesAllowed", actionCare, "The members accept writes again: their data is from a snapshot or a volume of an Etcd that was being deleted, while etcd rejected writes")

		return r.resetFullSnapshotLease(ctx, etcd)
	}

	return nil
}

// resetFullSnapshotLease recreates the Lease of full snapshots without a snapshot. If there is none, it does nothing: the etcd controller
// creates it.
func (r *Reconciler) resetFullSnapshotLease(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	lease := &coordinationv1.Lease{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.FullSnapshotLeaseName(etcd)}, lease); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := r.Client.Delete(ctx, lease, client.Preconditions{UID: new(lease.UID)}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("resetting Lease %s: %w", lease.Name, err)
	}
	empty := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: lease.Namespace, Name: lease.Name, Labels: lease.Labels, Annotations: lease.Annotations, OwnerReferences: lease.OwnerReferences,
	}}
	if err := r.Client.Create(ctx, empty); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("recreating Lease %s: %w", lease.Name, err)
	}

	return nil
}
