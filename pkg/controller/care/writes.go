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
// records one, and the condition FullSnapshotReady is not True before. A sidecar may record such a snapshot until the members accept writes.
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
	if !rejects {
		return r.resetFullSnapshotLease(ctx, etcd, false)
	}
	for _, pod := range o.Pods {
		if status := o.Etcd.Endpoint(pod.Ordinal); pod.Deleting || status == nil || !status.Healthy {
			continue
		}
		member, err := r.Members.Member(ctx, etcd, pod)
		if err != nil {
			return err
		}
		if err := r.resetFullSnapshotLease(ctx, etcd, true); err != nil {
			return err
		}
		if err := member.AllowWrites(ctx); err != nil {
			return err
		}
		r.Recorder.Eventf(current, nil, corev1.EventTypeNormal, "WritesAllowed", actionCare, "The members accept writes again: their data is from a snapshot or a volume of an Etcd that was being deleted, while etcd rejected writes")

		return r.resetFullSnapshotLease(ctx, etcd, false)
	}

	return nil
}

// resetFullSnapshotLease recreates the Lease of full snapshots without a snapshot. isFirst is true for the first of two resets: what the Lease
// records before the second one does not count. If a configured store has no Lease, the etcd controller creates it. The first reset waits for
// it, because the new Lease would lack the annotation.
func (r *Reconciler) resetFullSnapshotLease(ctx context.Context, etcd *druidv1alpha1.Etcd, isFirst bool) error {
	lease := &coordinationv1.Lease{}
	switch err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.FullSnapshotLeaseName(etcd)}, lease); {
	case apierrors.IsNotFound(err) && isFirst && helper.IsStoreConfigured(etcd):
		return fmt.Errorf("resetting Lease %s before the members accept writes again: it does not exist", helper.FullSnapshotLeaseName(etcd))
	case err != nil:
		return client.IgnoreNotFound(err)
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
