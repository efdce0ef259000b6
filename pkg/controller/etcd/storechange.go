// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// followStore resets the snapshot Leases as soon as no member writes to the previous store any more. It also requests a full snapshot in
// the new store. The sidecar would leave the Leases unchanged until its own snapshots have higher revisions. It would take no full snapshot
// if it finds a recent copied one. The Leases would then report snapshots that are in another store.
func (r *execution) followStore(ctx context.Context, run *engine.Run) error {
	o := run.Observation
	for _, lease := range componentetcd.SnapshotLeases(run.Rendered.Values) {
		observed, isFull := o.DeltaSnapshotLease, lease.Name == helper.FullSnapshotLeaseName(run.Target.Etcd)
		if isFull {
			observed = o.FullSnapshotLease
		}
		move := r.storeMove(run)
		if move.IsPending() {
			run.RequeueWithin(engine.FallbackResync) // no watch reports that sidecars use a changed Secret
		}
		switch move.ActOn(observed) {
		case planner.LeaseUnchanged:
		case planner.LeaseStoreRecorded:
			if err := r.recordLeaseStore(ctx, lease, move.TextFor(observed)); err != nil {
				return err
			}
		case planner.LeaseReset:
			if err := r.resetLease(ctx, run.Target.Stored, lease, observed); err != nil {
				return err
			}
		}
		if isFull && move.WantsSnapshot() {
			what := fmt.Sprintf("All members use %s and no longer %s", move.Location, cmp.Or(o.FullSnapshotLease.Store, o.DeltaSnapshotLease.Store))
			if !move.IsElsewhere() {
				what = fmt.Sprintf("All members use %s again, and it may lack the delta snapshots that went elsewhere", move.Location)
			}
			if err := r.requestSnapshot(ctx, run.Target.Stored, storeTaskName(run, move), "BackupStoreChanged", what); err != nil {
				return err
			}
		}
	}

	return nil
}

// storeMove returns the progress of the cluster to the rendered store, which is not nil.
func (r *execution) storeMove(run *engine.Run) planner.StoreMove {
	return planner.StoreMoveTo(*run.Target.StoreRecord, run.Target.Stored.UID, run.Rendered.Rendering, run.Observation, r.Clock.Now())
}

// storeTaskName is the name of the task that takes the first full snapshot in a store. A change of the endpoint or the account alone has no
// generation of its own: it may come from the Secret.
func storeTaskName(run *engine.Run, move planner.StoreMove) string {
	etcd, changes := run.Target.Stored, run.Target.Stored.Generation
	if record := run.Target.StoreRecord; !record.ChangedAt.IsZero() && state.IsSameContainer(run.Observation.DeltaSnapshotLease.Store, move.Location) {
		changes = record.ChangedAt.Unix()
	}

	return fmt.Sprintf("%s-store-%d", etcd.Name, changes)
}

// recordLeaseStore records on a Lease which store has its snapshots.
func (r *Reconciler) recordLeaseStore(ctx context.Context, lease *coordinationv1.Lease, location string) error {
	current := &coordinationv1.Lease{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(lease), current); err != nil {
		return client.IgnoreNotFound(err)
	}
	next := current.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, druidv1alpha1.LeaseAnnotationStore, location)

	return client.IgnoreNotFound(r.Client.Patch(ctx, next, client.MergeFrom(current)))
}

// resetLease deletes and recreates a snapshot Lease.
func (r *Reconciler) resetLease(ctx context.Context, etcd *druidv1alpha1.Etcd, lease *coordinationv1.Lease, observed etcdcluster.Lease) error {
	if err := r.Client.Delete(ctx, lease.DeepCopy(), client.Preconditions{UID: &observed.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("resetting Lease %s, which records snapshots in %s: %w", lease.Name, observed.Store, err)
	}
	if err := r.Client.Create(ctx, lease.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("recreating Lease %s: %w", lease.Name, err)
	}
	r.event(etcd, corev1.EventTypeNormal, "SnapshotLeaseReset", "Reset Lease %s: its snapshots are in %s, which the cluster no longer uses", lease.Name, observed.Store)

	return nil
}

// refillSnapshotLease requests a full snapshot, once, for a Lease of full snapshots that was deleted and recreated.
func (r *execution) refillSnapshotLease(ctx context.Context, run *engine.Run) error {
	lease, leases := run.Observation.FullSnapshotLease, componentetcd.SnapshotLeases(run.Rendered.Values)
	if len(leases) == 0 || !planner.WantsSnapshotForLease(run.Observation, run.Target.Stored.UID) {
		return nil
	}
	if r.storeMove(run).WantsSnapshot() {
		return nil // followStore has requested it
	}
	name := fmt.Sprintf("%s-%.8s", lease.Name, lease.UID)

	return r.requestSnapshot(ctx, run.Target.Stored, name, "SnapshotLeaseRecreated", fmt.Sprintf("Lease %s was recreated and records no snapshot", lease.Name))
}

// requestSnapshot creates an EtcdOpsTask that takes a full snapshot, unless there is one of this name. The task is repeated outside the
// workers, and survives a restart of the operator. what is the reason as text.
func (r *Reconciler) requestSnapshot(ctx context.Context, etcd *druidv1alpha1.Etcd, name, eventReason, what string) error {
	labels := helper.DefaultLabels(etcd)
	labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameOpsTask
	task := &druidv1alpha1.EtcdOpsTask{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Namespace:       etcd.Namespace,
			Labels:          labels,
			OwnerReferences: []metav1.OwnerReference{helper.OwnerReference(etcd)},
		},
		Spec: druidv1alpha1.EtcdOpsTaskSpec{
			EtcdName: new(etcd.Name),
			Config:   druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeFull}},
		},
	}
	switch err := r.Client.Create(ctx, task); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("creating EtcdOpsTask %s: %w", task.Name, err)
	}
	r.event(etcd, corev1.EventTypeNormal, eventReason, "%s; EtcdOpsTask %s takes a full snapshot", what, task.Name)

	return nil
}
