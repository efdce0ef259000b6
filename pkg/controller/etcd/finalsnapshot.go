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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/panics"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
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
	attempts := o.SnapshotAttempts.Record(etcd.Generation, startedAt.UTC().Round(0))
	recorded, err := r.record(ctx, etcd, o, "the attempt to take a full snapshot", func(s *state.State) { s.Snapshot = attempts })
	if recorded {
		o.SnapshotAttempts.Unrecorded = false
	}
	return err
}

// takeSnapshot begins to take a full snapshot of a canonical Etcd, and does not wait for it: it takes minutes. The end of the call triggers
// a reconciliation. The snapshot is in the store that the sidecar of the leader uses now: another member may be the leader when it is used.
func (r *Reconciler) takeSnapshot(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation, step plan.TakeSnapshot) error {
	if err := r.recordAttempts(ctx, etcd, o, r.Clock.Now()); err != nil {
		return err
	}
	etcd, before, leader, rejectsWrites := etcd.DeepCopy(), o.SnapshotAttempts, o.Leader(), o.Etcd.HasWriteRejection()
	location := o.LeaderStoreLocation()
	isStarted := r.Snapshots.Run(etcd, func(ctx context.Context) etcdcluster.SnapshotCall {
		// The sidecar ends by itself what takes longer than its own limit.
		ctx, cancel := context.WithTimeout(ctx, helper.SnapshotTimeout(etcd)+time.Minute)
		defer cancel()
		verified, err := r.verifiedSnapshot(ctx, etcd, leader, step.RejectWrites, rejectsWrites)
		if verified != nil {
			verified.Store, verified.PodCreationTime = location, leader.CreationTime
		}
		call := etcdcluster.SnapshotCall{Generation: etcd.Generation, Verified: verified, Err: err, EndedAt: r.Clock.Now().UTC().Round(0)}
		if err != nil {
			r.event(etcd, corev1.EventTypeWarning, "FullSnapshotFailed", "Attempt %d: %s", before.Failures+1, err)
		} else {
			r.event(etcd, corev1.EventTypeNormal, "FullSnapshotTaken", "Took and verified %s", verified)
		}
		return call
	})
	if !isStarted {
		return errors.New("the operator starts no calls, since it is stopping or one is running")
	}
	return nil
}

// verifiedSnapshot takes a full snapshot through the pod of the leader. It is never marked as the final one: that belongs to
// the migration of control planes. If reject is true, etcd then rejects all writes, and the store has all of them. If that fails, etcd accepts
// writes again. rejectsWrites is true if an earlier attempt was interrupted while etcd rejected writes.
func (r *Reconciler) verifiedSnapshot(ctx context.Context, etcd *druidv1alpha1.Etcd, leader *etcdcluster.Pod, reject, rejectsWrites bool) (verified *state.VerifiedSnapshot, err error) {
	defer panics.Recover(ctx, &err)
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
	if rejectsWrites {
		if err := member.AllowWrites(ctx); err != nil {
			return nil, err
		}
	}
	taken := &state.VerifiedSnapshot{At: r.Clock.Now().Truncate(time.Second)}
	snapshot, last, err := snapshotOf(ctx, etcd, client, member, reject)
	if err != nil {
		return nil, err
	}
	taken.Name, taken.Revision, taken.LastRevision = snapshot.Name, snapshot.LastRevision, last
	return taken, nil
}

// deltaRetry are the attempts to take the last delta snapshot, during which etcd rejects writes. The pauses are eight seconds in total. Each
// attempt also takes the time in which the sidecar stores the delta snapshot.
var deltaRetry = wait.Backoff{Steps: 5, Duration: 500 * time.Millisecond, Factor: 2}

// snapshotOf takes a full snapshot. If reject is true, it also returns the revision of the last write, after which etcd rejects writes. If that
// fails, etcd accepts writes again.
func snapshotOf(ctx context.Context, etcd *druidv1alpha1.Etcd, client sidecar.Client, member etcdclient.Client, reject bool) (sidecar.Snapshot, int64, error) {
	if !reject {
		snapshot, err := sidecar.VerifiedFullSnapshot(ctx, client, member.Revision)
		return snapshot, 0, err
	}
	isRejected, last := false, int64(0)
	rejectWrites := func(ctx context.Context) (revision int64, err error) {
		isRejected = true
		last, err = member.RejectWrites(ctx)
		return last, err
	}
	snapshot, err := snapshotOfAll(ctx, etcd, client, member, rejectWrites)
	if err == nil || !isRejected {
		return snapshot, last, err
	}
	if allowErr := member.AllowWrites(context.WithoutCancel(ctx)); allowErr != nil {
		err = fmt.Errorf("%w; etcd may reject writes until the next attempt: %w", err, allowErr)
	}
	return sidecar.Snapshot{}, 0, err
}

// snapshotOfAll makes the store contain all writes. Without delta snapshots, nothing would add the writes after a full snapshot. It is then taken
// while etcd rejects writes, and contains the rejection. The same applies if no delta snapshot succeeds. The sidecar
// may run with another deltaSnapshotPeriod than that of the spec, and does not report that as the reason.
func snapshotOfAll(ctx context.Context, etcd *druidv1alpha1.Etcd, client sidecar.Client, member etcdclient.Client, rejectWrites func(context.Context) (int64, error)) (sidecar.Snapshot, error) {
	if !helper.TakesDeltaSnapshots(etcd) {
		return sidecar.VerifiedFullSnapshot(ctx, client, rejectWrites)
	}
	snapshot, err := sidecar.VerifiedFullSnapshot(ctx, client, member.Revision)
	if err != nil {
		return sidecar.Snapshot{}, err
	}
	var rejectErr error
	_, err = sidecar.CompleteSnapshot(ctx, client, snapshot, func(ctx context.Context) (last int64, err error) {
		last, rejectErr = rejectWrites(ctx)
		return last, rejectErr
	}, deltaRetry)
	if err == nil || rejectErr != nil || errors.Is(err, sidecar.ErrAnotherFullSnapshot) {
		return snapshot, err
	}
	snapshot, fullErr := sidecar.VerifiedFullSnapshot(ctx, client, member.Revision)
	if fullErr != nil {
		return sidecar.Snapshot{}, fmt.Errorf("%w; a full snapshot while etcd rejects writes failed too: %w", err, fullErr)
	}
	return snapshot, nil
}

// finalSnapshotOf returns the condition about the snapshot before the members stop, nil if there is none. False: the plan of the run is not
// about it.
func finalSnapshotOf(run *engine.Run) (*druidv1alpha1.Condition, bool) {
	switch {
	case run == nil, run.Planned.NextEtcdVersion != "": // the members do not stop for good
		return nil, false
	case run.Planned.Stage == plan.StageSnapshot:
		return conditions.FinalSnapshotPending(run.Planned, run.Observation.SnapshotAttempts, false), true
	case run.Planned.Render:
		return conditions.FinalSnapshotTaken(run.Planned.FinalSnapshot), true
	default:
		return nil, false
	}
}

// hibernationEventType is the type of the event about the snapshot before the members stop.
func hibernationEventType(snapshot state.FinalSnapshot) string {
	if snapshot.Missing == state.SnapshotFailed || snapshot.Missing == state.SnapshotRolledBack {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// announceStop emits one event with the snapshot before the members stop.
func (r *execution) announceStop(run *engine.Run) {
	snapshot, before := run.Rendered.Plan.FinalSnapshot, run.Observation.State.FinalSnapshot
	if snapshot == nil || before != nil && before.String() == snapshot.String() {
		return
	}
	r.event(run.Target.Stored, hibernationEventType(*snapshot), "Hibernating", "The members are stopped with %s", snapshot)
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
	o := r.Observer.Observe(ctx, canonical, observer.Request{QueryEtcd: true, Volumes: true, RestoreVerification: true})
	o.SnapshotAttempts = etcdcluster.SnapshotAttemptsFor(canonical.Generation, o.State.Snapshot, r.snapshotCall(canonical))
	if o.SnapshotAttempts.Unrecorded {
		if err := r.recordAttempts(ctx, canonical, &o, o.State.Snapshot.StartedAt); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
		}
	}
	decision := planner.ForDeletion(canonical, o, namespace.DeletionTimestamp != nil, r.Clock.Now())
	if decision.Outcome() != plan.OutcomeDone {
		step := decision.Step
		decision, err := r.doForDeletion(ctx, etcd, canonical, &o, decision)
		if err != nil {
			return err
		}
		isRolledBack := step == nil && planner.WaitsForAcceptance(canonical, o)
		if err := r.recordFinalSnapshot(ctx, etcd, conditions.FinalSnapshotPending(decision, o.SnapshotAttempts, isRolledBack)); err != nil {
			return err
		}
		if step == nil && decision.Stage == plan.StageSnapshot {
			if err := r.endRejection(ctx, canonical, o); err != nil {
				return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
			}
		}
		return stillWaiting("Waiting for %s (%s)", decision.WaitsFor, decision.Reason)
	}
	if decision.FinalSnapshot == nil {
		return nil
	}
	return r.approveDeletion(ctx, etcd, &o, *decision.FinalSnapshot, namespace)
}

// doForDeletion executes the step of a deletion, if one is due. It takes a snapshot, or creates or deletes a Job that inspects a volume. It returns
// the decision with what the deletion waits for after that step.
func (r *Reconciler) doForDeletion(ctx context.Context, etcd, canonical *druidv1alpha1.Etcd, o *etcdcluster.Observation, decision plan.Plan) (plan.Plan, error) {
	if decision.Step == nil {
		return decision, nil
	}
	if step, is := decision.Step.(plan.TakeSnapshot); is {
		decision.WaitsFor = "a full snapshot to be stored and verified"

		return decision, plan.Failed(druidv1alpha1.ErrorCodeStep, r.takeSnapshot(ctx, canonical, o, step))
	}
	if _, is := decision.Step.(plan.InspectClaim); is {
		// A Job that reads a volume while caches show an earlier hibernation could miss the writes of a member that runs.
		if err := r.checkStopped(ctx, etcd, *o); err != nil {
			return decision, err
		}
		decision.WaitsFor = fmt.Sprintf("a Job to inspect the volume of claim %s", plan.MetaOf(decision.Step).Object)
	} else {
		decision.WaitsFor = fmt.Sprintf("Job %s to be gone", plan.MetaOf(decision.Step).Object)
	}
	// The operator may not have accepted the newest generation, and its configuration may forbid what the Job would copy.
	accepted, permitted := ptr.Deref(o.State.AcceptedSpec(), druidv1alpha1.EtcdSpec{}), canonical.DeepCopy()
	permitted.Spec.PriorityClassName, permitted.Spec.Annotations = accepted.PriorityClassName, accepted.Annotations
	run := &engine.Run{Target: &target.Target{Stored: etcd, Etcd: permitted}, Observation: *o, Observed: true}
	if err := (&execution{Reconciler: r}).Do(ctx, run, decision.Step, decision.Reason); err != nil {
		return decision, plan.Failed(druidv1alpha1.ErrorCodeStep, fmt.Errorf("%w; the annotation %s continues without this step", err, druidv1alpha1.SkipFinalSnapshotAnnotation))
	}

	return decision, nil
}

// endRejection makes etcd accept writes again while a deletion waits and no snapshot is being taken, for example for a user. The next snapshot
// begins with a new rejection. It does nothing while etcd has no leader.
func (r *Reconciler) endRejection(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	leader := o.Leader()
	if leader == nil || o.SnapshotAttempts.Running || !o.Etcd.HasWriteRejection() {
		return nil
	}
	member, err := r.Observer.Member(ctx, etcd, *leader)
	if err != nil {
		return err
	}
	return member.AllowWrites(ctx)
}

// approveDeletion records that the volumes may be deleted with a snapshot. It decides again if the caches were stale, or if a quorum has just returned
// a lower revision than an earlier one.
func (r *Reconciler) approveDeletion(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation, snapshot state.FinalSnapshot, namespace *metav1.PartialObjectMetadata) error {
	if err := r.checkDeletion(ctx, etcd, *o, snapshot); err != nil {
		return err
	}
	if confirmed := evidence.Confirm(o.State.Evidence, *o, r.Clock.Now()); confirmed != nil && snapshot.Snapshot != nil {
		wasRolledBack := o.State.Evidence != nil && o.State.Evidence.RolledBack != nil
		if err := r.recordEvidence(ctx, etcd, o, evidence.Change{Evidence: confirmed}); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
		}
		if confirmed.RolledBack != nil && !wasRolledBack {
			return stillWaiting("Waiting to decide again: a quorum returned revision %d, and had returned revision %d before", confirmed.RolledBack.Revision, confirmed.HighestRevision)
		}
	}
	approved := conditions.DeletionApproved(snapshot)
	if err := r.recordFinalSnapshot(ctx, etcd, approved); err != nil {
		return err
	}
	if snapshot.Missing == state.SnapshotTerminating {
		// No event can be made in the namespace itself.
		r.Recorder.Eventf(namespace, etcd, corev1.EventTypeWarning, "FinalSnapshotSkipped", "Delete", "Etcd %s is deleted with %s", etcd.Name, snapshot)
		return nil
	}
	r.event(etcd, corev1.EventTypeNormal, "DeletingVolumes", "%s", approved.Message)
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
