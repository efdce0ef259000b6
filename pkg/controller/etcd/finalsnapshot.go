// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// snapshotCall returns what this process knows of its calls for a full snapshot of an Etcd.
func (r *Reconciler) snapshotCall(etcd *druidv1alpha1.Etcd) etcdcluster.SnapshotCall {
	call, running, _ := r.Snapshots.Outcome(etcd.UID)
	call.Running = running
	return call
}

// recordAttempts records the attempts to take a full snapshot, the last of which began at a time. An Etcd that was not adopted yet has no
// ManagedResource: its attempts are not limited.
func (r *Reconciler) recordAttempts(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation, startedAt time.Time) error {
	mr, err := r.currentManagedResource(ctx, etcd)
	if err != nil || mr == nil || !o.ManagedResource.Exists {
		return err
	}
	if err := checkRecord(mr, *o); err != nil {
		return err
	}
	before, attempts := mr.DeepCopy(), o.SnapshotAttempts.Record(etcd.Generation, startedAt.UTC().Round(0))
	if mr.Annotations, err = state.Update(mr.Annotations, func(s *state.State) { s.Snapshot = attempts }); err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording the attempt to take a full snapshot on ManagedResource %s: %w", mr.Name, err)
	}
	o.State.Snapshot, o.SnapshotAttempts.Unrecorded = attempts, false
	return nil
}

// takeSnapshot begins to take a full snapshot of a canonical Etcd, and does not wait for it: it takes minutes. The end of the call triggers
// a reconciliation.
func (r *Reconciler) takeSnapshot(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation) error {
	if err := r.recordAttempts(ctx, etcd, o, r.Clock.Now()); err != nil {
		return err
	}
	etcd, before, leader := etcd.DeepCopy(), o.SnapshotAttempts, o.Leader()
	isStarted := r.Snapshots.Run(etcd, func(ctx context.Context) etcdcluster.SnapshotCall {
		// The sidecar ends by itself what takes longer than its own limit.
		ctx, cancel := context.WithTimeout(ctx, helper.SnapshotTimeout(etcd)+time.Minute)
		defer cancel()
		verified, err := r.verifiedSnapshot(ctx, etcd, leader)
		call := etcdcluster.SnapshotCall{Generation: etcd.Generation, Verified: verified, Err: err, EndedAt: r.Clock.Now().UTC().Round(0)}
		if err != nil {
			r.event(etcd, corev1.EventTypeWarning, "FinalSnapshotFailed", "Attempt %d: %s", before.Failures+1, err)
		} else {
			r.event(etcd, corev1.EventTypeNormal, "FinalSnapshotTaken", "Took and verified %s", verified)
		}
		return call
	})
	if !isStarted {
		return errors.New("the operator starts no calls, since it is stopping or one is running")
	}
	return nil
}

// verifiedSnapshot takes a full snapshot through the pod of the leader. It is never marked as the final one: that belongs to
// the migration of control planes.
func (r *Reconciler) verifiedSnapshot(ctx context.Context, etcd *druidv1alpha1.Etcd, leader *etcdcluster.Pod) (*state.VerifiedSnapshot, error) {
	if leader == nil {
		return nil, errors.New("no member is the leader, whose sidecar takes the snapshot")
	}
	member, err := r.Observer.Member(ctx, etcd, *leader)
	if err != nil {
		return nil, err
	}
	client, err := r.Observer.Sidecar(ctx, etcd, *leader)
	if err != nil {
		return nil, err
	}
	requestedAt := r.Clock.Now().Truncate(time.Second)
	snapshot, err := sidecar.VerifiedFullSnapshot(ctx, client, member.Revision)
	if err != nil {
		return nil, err
	}
	return &state.VerifiedSnapshot{Name: snapshot.Name, Revision: snapshot.LastRevision, At: requestedAt}, nil
}

// finalSnapshotOf returns the condition about the snapshot before the members stop, nil if there is none. False: the plan of the run is not
// about it.
func finalSnapshotOf(run *engine.Run) (*druidv1alpha1.Condition, bool) {
	switch {
	case run == nil:
		return nil, false
	case run.Planned.Stage == plan.StageSnapshot:
		return conditions.FinalSnapshotPending(run.Planned, run.Observation.SnapshotAttempts), true
	case run.Planned.Render:
		return conditions.FinalSnapshotTaken(run.Planned.FinalSnapshot), true
	default:
		return nil, false
	}
}

// announceStop emits one event with the snapshot before the members stop.
func (r *execution) announceStop(run *engine.Run) {
	snapshot, before := run.Rendered.Plan.FinalSnapshot, run.Observation.State.FinalSnapshot
	if snapshot == nil || before != nil && before.String() == snapshot.String() {
		return
	}
	eventType := corev1.EventTypeNormal
	if snapshot.Missing == state.SnapshotFailed {
		eventType = corev1.EventTypeWarning
	}
	r.event(run.Target.Stored, eventType, "Hibernating", "The members are stopped with %s", snapshot)
}

// saveData takes and verifies a full snapshot before the volumes of an Etcd are deleted. The deletion waits for the snapshot, or for an annotation
// that skips it. The status records that the deletion may continue, because the ManagedResource is deleted.
func (r *Reconciler) saveData(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	if !helper.DeletesClaims(etcd) {
		return nil
	}
	if proceeds, err := r.deletionProceeds(ctx, etcd); err != nil || proceeds {
		return err
	}
	namespace := metadataOf(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: etcd.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("reading Namespace %s: %w", etcd.Namespace, err))
	}
	canonical, _ := helper.Canonical(etcd) // as far as it can be parsed: the operator has rolled it out before
	o := r.Observer.Observe(ctx, canonical, observer.Request{QueryEtcd: true})
	o.SnapshotAttempts = etcdcluster.SnapshotAttemptsFor(canonical.Generation, o.State.Snapshot, r.snapshotCall(canonical))
	if o.SnapshotAttempts.Unrecorded {
		if err := r.recordAttempts(ctx, canonical, &o, o.State.Snapshot.StartedAt); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
		}
	}
	decision := planner.ForDeletion(canonical, o, namespace.DeletionTimestamp != nil, r.Clock.Now())
	if decision.Outcome() != plan.OutcomeDone {
		if decision.Step != nil {
			if err := r.takeSnapshot(ctx, canonical, &o); err != nil {
				return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
			}
			decision.WaitsFor = "a full snapshot to be stored and verified"
		}
		if err := r.recordFinalSnapshot(ctx, etcd, conditions.FinalSnapshotPending(decision, o.SnapshotAttempts)); err != nil {
			return err
		}
		return stillWaiting("Waiting for %s (%s)", decision.WaitsFor, decision.Reason)
	}
	if decision.FinalSnapshot == nil {
		return nil
	}
	if err := r.recordFinalSnapshot(ctx, etcd, conditions.DeletionApproved(*decision.FinalSnapshot)); err != nil {
		return err
	}
	if decision.FinalSnapshot.Missing == state.SnapshotTerminating {
		// No event can be made in the namespace itself.
		r.Recorder.Eventf(namespace, etcd, corev1.EventTypeWarning, "FinalSnapshotSkipped", "Delete", "Etcd %s is deleted with %s", etcd.Name, decision.FinalSnapshot)
		return nil
	}
	r.event(etcd, corev1.EventTypeNormal, "DeletingVolumes", "The volumes are deleted with %s", decision.FinalSnapshot)
	return nil
}

// deletionProceeds is true if the status records that the volumes may be deleted, and the members are being stopped. Before that, the record may be
// old, and the members accept writes.
func (r *Reconciler) deletionProceeds(ctx context.Context, etcd *druidv1alpha1.Etcd) (bool, error) {
	decided := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeFinalSnapshotTaken)
	if !conditions.IsDeletionApproved(decided) {
		return false, nil
	}
	mr := metadataOf(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"))
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("reading ManagedResource %s: %w", helper.ManagedResourceName(etcd), err))
	}
	return mr.DeletionTimestamp != nil, nil
}

// recordFinalSnapshot writes the condition about the snapshot, and nothing else.
func (r *Reconciler) recordFinalSnapshot(ctx context.Context, etcd *druidv1alpha1.Etcd, condition *druidv1alpha1.Condition) error {
	next := etcd.DeepCopy()
	next.Status.Conditions = conditions.Merge(next.Status.Conditions, []druidv1alpha1.ConditionType{condition.Type}, []druidv1alpha1.Condition{*condition}, r.Clock.Now())
	return r.patchStatus(ctx, etcd, next)
}
