// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Before members stop for good, or data is discarded, all that was ever acknowledged has to be in the store: a full snapshot
// is taken, and verified. This file decides when, how often, and what happens without one.

const (
	// hibernationAttempts is how often a full snapshot is tried before a cluster hibernates without one: its volumes stay.
	hibernationAttempts = 3
	// firstPause is the pause after the first attempt that failed; it doubles with each, up to longestPause.
	firstPause   = 15 * time.Second
	longestPause = 5 * time.Minute
)

// finalSnapshot decides about the snapshot before something that cannot be undone. Either there is an answer, the snapshot or
// why it goes without one, or the plan that comes back waits for it or takes it.
func finalSnapshot(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time, p plan.Plan) (*state.FinalSnapshot, plan.Plan) {
	answer := &state.FinalSnapshot{Generation: etcd.Generation}
	switch {
	case metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation):
		answer.Missing, answer.Message = state.SnapshotSkipped, "the annotation "+druidv1alpha1.SkipFinalSnapshotAnnotation+" skips it"

		return answer, p
	case neverServed(o, etcd):
		answer.Missing, answer.Message = state.SnapshotNoData, "no member has ever served"

		return answer, p
	}
	calls := o.SnapshotCalls
	if calls.IsFresh(now) {
		answer.Snapshot, answer.Store = calls.Verified, o.StoreLocation

		return answer, p
	}
	p.Stage = plan.StageSnapshot
	until := calls.EndedAt.Add(pauseAfter(calls.Failures))
	switch {
	case calls.Running:
		p.WaitsFor = "a full snapshot to be stored and verified"
	case calls.Error != "" && now.Before(until):
		p.WaitsFor = fmt.Sprintf("the next attempt to take a full snapshot, at %s: %s", until.UTC().Format(time.RFC3339), calls.Error)
	default:
		p.Step = plan.TakeSnapshot{Meta: plan.Meta{Object: etcd.Name, UID: etcd.UID}}
	}

	return nil, p
}

func pauseAfter(failures int) time.Duration {
	pause := firstPause
	for range failures - 1 {
		pause = min(2*pause, longestPause)
	}

	return pause
}

// neverServed is true when it is certain that no member has ever served: there are leases, nobody has ever written one, and no
// volume is older than the Etcd. One that is was kept when an Etcd of the same name was deleted, with its leases.
func neverServed(o etcdcluster.Observation, etcd *druidv1alpha1.Etcd) bool {
	if o.Failure(etcdcluster.SectionLeases) != "" || len(o.MemberLeases) == 0 || o.FullSnapshotLease.Holder != "" || o.Etcd.AnyReachable() {
		return false
	}
	for _, lease := range o.MemberLeases {
		if lease.Holder != "" {
			return false
		}
	}
	for _, pod := range o.Pods {
		if pod.Ready {
			return false
		}
	}
	for _, claim := range o.Claims {
		if claim.Exists && claim.CreationTime.Before(etcd.CreationTimestamp.Time) {
			return false
		}
	}

	return true
}

// deltaRevision is the revision of the newest delta snapshot; 0 where none is known.
func deltaRevision(o etcdcluster.Observation) int64 {
	revision, err := strconv.ParseInt(o.DeltaSnapshotLease.Holder, 10, 64)
	if err != nil {
		return 0
	}

	return revision
}

// isStopped is true when no member is told to run any more: what was decided before that stands.
func isStopped(o etcdcluster.Observation) bool { return etcdcluster.RenderedReplicas(o) == 0 }

// hibernationSnapshot decides about the snapshot before a cluster hibernates. Nil without a plan: there is none to be taken.
func hibernationSnapshot(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (*state.FinalSnapshot, *plan.Plan) {
	switch {
	case isStopped(o):
		return o.State.FinalSnapshot, nil
	case !helper.IsStoreConfigured(etcd):
		return nil, nil
	}
	calls := o.SnapshotCalls
	p := plan.Plan{ClusterSize: o.State.Size, Reason: "spec.replicas is 0; a full snapshot comes before the members stop"}
	answer, p := finalSnapshot(etcd, o, now, p)
	switch {
	case answer != nil:
		return answer, nil
	case calls.Attempts() >= hibernationAttempts && !calls.Running && calls.Verified != nil:
		// Older than it should be, and better than none.
		return &state.FinalSnapshot{Generation: etcd.Generation, Snapshot: calls.Verified, Store: o.StoreLocation}, nil
	case calls.Attempts() >= hibernationAttempts && !calls.Running:
		failed := fmt.Sprintf("%d attempts failed", calls.Failures)
		if calls.Late > 0 {
			failed += fmt.Sprintf(" after %d snapshots that were too old before they could be acted upon", calls.Late)
		}

		return &state.FinalSnapshot{Generation: etcd.Generation, Missing: state.SnapshotFailed, Message: failed + ", and the volumes are kept: " + calls.Error}, nil
	default:
		p.Reason = fmt.Sprintf("%s (attempt %d of %d)", p.Reason, min(calls.Attempts()+1, hibernationAttempts), hibernationAttempts)

		return nil, &p
	}
}

// hibernated returns the snapshot with which the members were stopped, if it holds all that they are known to have written, or else
// why it does not count, to be added to a reason. Both are empty where there is none, or members run.
func hibernated(o etcdcluster.Observation) (*state.FinalSnapshot, string) {
	before, written := o.State.FinalSnapshot, deltaRevision(o)
	switch {
	case !isStopped(o) || before == nil || before.Snapshot == nil || len(o.Pods) > 0:
		return nil, ""
	case before.Store != o.StoreLocation:
		return nil, fmt.Sprintf(", and the snapshot from before the hibernation lies in %s, which is used no longer", cmp.Or(before.Store, "a store that was not noted"))
	case written > before.Snapshot.Revision:
		// They serve until the last of them has ended.
		return nil, fmt.Sprintf(", and the members wrote up to revision %d at least after the snapshot from before the hibernation, which holds revision %d: wake the cluster up before it is deleted", written, before.Snapshot.Revision)
	default:
		return before, ""
	}
}

// ForDeletion decides whether the volumes of a canonical Etcd that is being deleted may go. Its outcome is Done, with the
// FinalSnapshot that allows it, or else what has to happen before. terminating says that the namespace is being deleted, in
// which no snapshot would ever succeed. Nil FinalSnapshot with the outcome Done: there are no volumes, or there is no store.
func ForDeletion(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, terminating bool, now time.Time) plan.Plan {
	p := plan.Plan{Stage: plan.StageDone, Reason: "nothing is discarded that a snapshot could hold"}
	if !helper.DeletesClaims(etcd) || !helper.IsStoreConfigured(etcd) || !helper.ManagesPods(etcd) {
		return p
	}
	for _, section := range []etcdcluster.Section{etcdcluster.SectionManagedResource, etcdcluster.SectionStatefulSet, etcdcluster.SectionPods, etcdcluster.SectionClaims, etcdcluster.SectionLeases} {
		if failure := o.Failure(section); failure != "" && !terminating {
			return plan.Plan{Stage: plan.StageObserve, Reason: "nothing is decided without all facts", WaitsFor: fmt.Sprintf("reading %s: %s", section, failure)}
		}
	}
	if !anyClaim(o) {
		return p
	}
	p.Reason = "spec.pvcRetentionPolicy is DeleteAll"
	if terminating {
		p.FinalSnapshot = &state.FinalSnapshot{Generation: etcd.Generation, Missing: state.SnapshotTerminating, Message: "the namespace is being deleted"}

		return p
	}
	before, butNot := hibernated(o)
	if before != nil {
		p.FinalSnapshot = before

		return p
	}
	p.Reason += butNot
	answer, p := finalSnapshot(etcd, o, now, p)
	p.FinalSnapshot = answer
	if answer == nil {
		p.Reason += fmt.Sprintf(", and a full snapshot comes before the volumes are deleted; the annotation %s goes on without", druidv1alpha1.SkipFinalSnapshotAnnotation)
	}

	return p
}

func planHibernation(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	p := plan.Plan{Stage: plan.StageHibernate, Render: true, ClusterSize: o.State.Size, Restore: o.State.Restore}
	if untold := untoldMember(o, etcd, now); untold != "" && !isStopped(o) {
		p.Stage, p.Render, p.Lively = plan.StageSettle, false, true
		p.Reason = "spec.replicas is 0; the members stop when their leases tell who has to be started again"
		p.WaitsFor = "the first heartbeat of member " + untold

		return p
	}
	snapshot, before := hibernationSnapshot(etcd, o, now)
	if before != nil {
		return *before
	}
	p.FinalSnapshot = snapshot
	switch {
	case len(o.Pods) > 0:
		p.Reason = fmt.Sprintf("spec.replicas is 0; %d pods still run", len(o.Pods))
		p.WaitsFor = "pod " + o.Pods[0].Name + " to be gone"
	default:
		p.Stage = plan.StageHibernated
		p.Reason = "spec.replicas is 0 and no pod runs; the data is kept"
	}
	if snapshot != nil {
		p.Reason += "; " + snapshot.String()
	}

	return p
}

// untoldMember is a member that has started a moment ago, of which its lease does not tell yet: those that know that it has a vote would
// wait for it in vain after they were started again. The first is started in any case. Empty: none; one that does not come to it within
// MemberStartTimeout is not waited for.
func untoldMember(o etcdcluster.Observation, etcd *druidv1alpha1.Etcd, now time.Time) string {
	for _, pod := range o.Pods {
		name := helper.MemberName(etcd, pod.Ordinal)
		isTold := slices.ContainsFunc(o.MemberLeases, func(l etcdcluster.Lease) bool { return l.Name == name && l.Holder != "" })
		if pod.Ordinal > 0 && !isTold && !pod.Deleting && etcdcluster.HasStarted(pod) && now.Sub(pod.CreationTime) < etcdcluster.MemberStartTimeout {
			return name
		}
	}

	return ""
}
