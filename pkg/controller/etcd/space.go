// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/panics"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// spaceCall returns what this process knows of its calls that free space in the databases of an Etcd.
func (r *Reconciler) spaceCall(etcd *druidv1alpha1.Etcd) etcdcluster.SpaceCall {
	call, running, _ := r.Space.Outcome(etcd.UID)
	call.Running = running

	return call
}

// freeSpace executes a step that frees space. A step that takes long begins a call, and does not wait for it: the end of the call triggers a
// reconciliation.
func (r *execution) freeSpace(ctx context.Context, run *engine.Run, step plan.Step, reason string) error {
	switch step := step.(type) { //nolint:gochecksumtype // do lists all steps
	case plan.DisarmAlarm:
		return r.disarm(ctx, run, step, reason)
	case plan.RequestSnapshot:
		return r.completeSpace(ctx, run, step)
	default:
		return r.startSpaceCall(run, step, reason)
	}
}

// disarm requests the end of an alarm from the healthy members, one after the other, until one succeeds.
func (r *execution) disarm(ctx context.Context, run *engine.Run, step plan.DisarmAlarm, reason string) error {
	alarm := etcdcluster.Alarm{MemberID: step.Member, Type: etcdcluster.AlarmNoSpace}
	refusal, err := r.tryEndpoints(ctx, run.Target.Etcd, run.Observation, func(member etcdclient.Client) error { return member.Disarm(ctx, alarm) })
	switch {
	case err != nil:
		return err
	case refusal != nil:
		return waitForMembers("Waiting for the end of the alarm NOSPACE of member %s: %s (%s)", etcdcluster.FormatID(step.Member), refusal, reason)
	}
	r.event(run.Target.Etcd, corev1.EventTypeNormal, "DisarmedAlarm", "Disarmed the alarm NOSPACE of member %s: %s", etcdcluster.FormatID(step.Member), reason)

	return nil
}

// completeSpace requests a full snapshot, and records that no alarm is left.
func (r *execution) completeSpace(ctx context.Context, run *engine.Run, step plan.RequestSnapshot) error {
	if err := r.requestSnapshot(ctx, run.Target.Stored, step.Task, "FreedSpace", "All databases are smaller than 80% of their quota, and no alarm NOSPACE is left"); err != nil {
		return err
	}
	endedAt := r.Clock.Now().UTC().Round(0)
	_, err := r.record(ctx, run.Target.Etcd, &run.Observation, "that the databases have space", func(s *state.State) {
		if s.Space.IsActive() {
			s.Space = s.Space.Ended(endedAt)
		}
	})

	return err
}

// startSpaceCall begins the call of a step. A defragmentation keeps the lock of the cluster until its end.
func (r *execution) startSpaceCall(run *engine.Run, step plan.Step, reason string) error {
	etcd, traits, meta := run.Target.Etcd.DeepCopy(), plan.TraitsOf(step), plan.MetaOf(step)
	pod := podWithUID(run.Observation, meta.UID)
	if pod == nil {
		r.endSpaceCall(etcd, traits)

		return errors.New("the pod is another one by now")
	}
	startedAt := r.Clock.Now().UTC().Round(0)
	isStarted := r.Space.Run(run.Target.Stored.DeepCopy(), func(ctx context.Context) etcdcluster.SpaceCall {
		call := etcdcluster.SpaceCall{Kind: traits.Kind, Object: meta.Object, StartedAt: startedAt}
		call.Err = r.callForSpace(ctx, etcd, *pod, step, &call)
		call.EndedAt = r.Clock.Now().UTC().Round(0)
		r.endSpaceCall(etcd, traits)
		r.announceSpaceCall(etcd, step, call, reason)

		return call
	})
	if !isStarted {
		r.endSpaceCall(etcd, traits)

		return errors.New("the operator starts no calls, since it is stopping or one is running")
	}

	return nil
}

// endSpaceCall releases the lock of the cluster after the call of a step that interrupts a member.
func (r *execution) endSpaceCall(etcd *druidv1alpha1.Etcd, traits plan.Traits) {
	if traits.InterruptsMember {
		r.Locks.Unlock(etcd.UID, lockCooldown)
	}
}

// callForSpace executes the call of a step, and adds its result. Each call may be repeated.
func (r *Reconciler) callForSpace(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod, step plan.Step, call *etcdcluster.SpaceCall) (err error) {
	defer panics.Recover(ctx, &err)
	ctx, cancel := context.WithTimeout(ctx, helper.DefragmentationTimeout(etcd))
	defer cancel()
	if _, is := step.(plan.TakeDeltaSnapshot); is {
		return r.storeHistory(ctx, etcd, pod, call)
	}
	member, err := r.Observer.Member(ctx, etcd, pod)
	if err != nil {
		return err
	}
	switch step := step.(type) { //nolint:gochecksumtype // startSpaceCall gets only these
	case plan.CompactHistory:
		if err = compact(ctx, member, step.Revision); err == nil {
			call.Compacted = step.Revision
		}

		return err
	case plan.DefragmentMember:
		return member.Defragment(ctx)
	case plan.CountKeys:
		call.Keys, err = member.CountKeys(ctx)

		return err
	default:
		return fmt.Errorf("unknown step %T", step)
	}
}

// compactions is the number of compactions up to one revision. A member reports the space that a compaction has freed only after later changes of its
// database. No client writes while it is full, but each compaction changes it.
const compactions = 3

// compact removes the history up to a revision. A revision up to which it was removed before changes nothing.
func compact(ctx context.Context, member etcdclient.Client, revision int64) error {
	for before := int64(compactions - 1); before >= 0; before-- {
		if revision > before {
			if err := member.Compact(ctx, revision-before); err != nil {
				return err
			}
		}
	}

	return nil
}

// storeHistory takes a delta snapshot, and reads up to which revision the store has the history.
func (r *Reconciler) storeHistory(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod, call *etcdcluster.SpaceCall) error {
	client, err := r.Observer.Sidecar(ctx, etcd, pod)
	if err != nil {
		return err
	}
	if _, err := client.DeltaSnapshot(ctx); err != nil {
		return err
	}
	latest, err := client.LatestSnapshots(ctx)
	if err != nil {
		return err
	}
	if call.Stored = latest.LastRevision(); call.Stored == 0 {
		return errors.New("the store has no snapshot")
	}

	return nil
}

// announceSpaceCall emits an event for a call that changed a member or failed.
func (r *Reconciler) announceSpaceCall(etcd *druidv1alpha1.Etcd, step plan.Step, call etcdcluster.SpaceCall, reason string) {
	text := plan.TraitsOf(step).Text
	switch step.(type) { //nolint:gochecksumtype // the other steps change no member
	case plan.CompactHistory, plan.DefragmentMember:
		if call.Err == nil {
			r.event(etcd, corev1.EventTypeNormal, "FreeingSpace", "Done: %s: %s", text, reason)
		}
	}
	if call.Err != nil {
		r.event(etcd, corev1.EventTypeWarning, "FreeingSpaceFailed", "Failed: %s: %s", text, call.Err)
	}
}
