// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Before members stop for good, or data is discarded, all that was ever acknowledged has to be in the store: a full snapshot
// is taken, and verified. This file decides when, how often, and what happens without one.

const (
	// hibernationAttempts is how often a full snapshot is tried before a cluster hibernates without one: its volumes stay.
	hibernationAttempts = 3
	// firstPause is the pause after the first attempt that failed; it doubles with each, up to longestPause.
	firstPause   = 15 * time.Second
	longestPause = 5 * time.Minute
	// snapshotValidity is how long a snapshot is good enough to act upon, from the end of the call: members go on writing, but to
	// take it may take longer than this, each time anew.
	snapshotValidity = 5 * time.Minute
)

// SnapshotCalls is how the calls to the sidecar stand that take the full snapshot, for the Etcd's current generation.
type SnapshotCalls struct {
	// Running is true while one is under way.
	Running bool
	// Verified is the snapshot that was taken and verified. Nil: none.
	Verified *VerifiedSnapshot
	// Failures counts the attempts that failed, since the last one that did not.
	Failures int
	// Late counts the snapshots that were verified, and too old before anybody acted upon them. Verified is not among them.
	Late int
	// Error is what the last attempt failed with. Empty: it did not fail.
	Error string
	// EndedAt is when the last attempt ended. Zero: none did.
	EndedAt time.Time
}

// Ended returns how the calls stand after one more ended at a time, with a snapshot or else an error.
func (c SnapshotCalls) Ended(verified *VerifiedSnapshot, err error, at time.Time) SnapshotCalls {
	next := SnapshotCalls{Verified: verified, Late: c.Late, EndedAt: at}
	if c.Verified != nil {
		next.Late++ // another one would not have been taken
	}
	if err != nil {
		next.Failures, next.Error = c.Failures+1, err.Error()
	}

	return next
}

// isGood is true while the snapshot that was verified is good enough to act upon.
func (c SnapshotCalls) isGood(now time.Time) bool {
	return c.Verified != nil && now.Sub(c.EndedAt) < snapshotValidity
}

// spent counts the attempts that have led to nothing, where Verified is not good enough any more.
func (c SnapshotCalls) spent() int {
	if c.Verified != nil {
		return c.Failures + c.Late + 1
	}

	return c.Failures + c.Late
}

// VerifiedSnapshot is a full snapshot that was the newest in the store, and held every write that was acknowledged before it
// was asked for.
type VerifiedSnapshot struct {
	// Name of the object in the store.
	Name string `json:"name"`
	// Revision of etcd that it holds at least.
	Revision int64 `json:"revision"`
	// At is when it was asked for.
	At time.Time `json:"at"`
}

// String shows the snapshot to people.
func (s VerifiedSnapshot) String() string {
	return fmt.Sprintf("full snapshot %s with revision %d, asked for at %s", s.Name, s.Revision, s.At.UTC().Format(time.RFC3339))
}

// FinalSnapshot is what is remembered about the snapshot before members stopped, or data was discarded.
type FinalSnapshot struct {
	// Generation of the Etcd that it was for.
	Generation int64 `json:"generation"`
	// Snapshot that was verified. Nil: there is none, see Missing.
	Snapshot *VerifiedSnapshot `json:"snapshot,omitempty"`
	// Store is the place in which Snapshot lies, as Observation.ManagedResource.StorePlace names it. Empty: not known.
	Store string `json:"store,omitempty"`
	// Missing is why there is none.
	Missing SnapshotMissing `json:"missing,omitempty"`
	// Message says more about Missing. Empty: there is nothing to say.
	Message string `json:"message,omitempty"`
}

// ParseFinalSnapshot reads what Marshal wrote. Nil: nothing is remembered, or it cannot be read, so that a snapshot is taken
// where one is needed.
func ParseFinalSnapshot(text string) *FinalSnapshot {
	parsed := &FinalSnapshot{}
	if text == "" || json.Unmarshal([]byte(text), parsed) != nil {
		return nil
	}

	return parsed
}

// Marshal returns the form in which the ManagedResource remembers it: JSON.
func (f FinalSnapshot) Marshal() (string, error) {
	data, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("remembering the final snapshot: %w", err)
	}

	return string(data), nil
}

// SnapshotMissing is why there is no snapshot.
type SnapshotMissing string

// The reasons to go on without a snapshot.
const (
	// SnapshotSkipped means that an annotation said so.
	SnapshotSkipped SnapshotMissing = "Skipped"
	// SnapshotFailed means that every attempt failed.
	SnapshotFailed SnapshotMissing = "Failed"
	// SnapshotNoData means that there is nothing to be saved.
	SnapshotNoData SnapshotMissing = "NoData"
	// SnapshotTerminating means that the namespace is being deleted.
	SnapshotTerminating SnapshotMissing = "NamespaceTerminating"
)

// String shows to people what is remembered.
func (f FinalSnapshot) String() string {
	switch {
	case f.Snapshot != nil:
		return f.Snapshot.String()
	case f.Message != "":
		return "no full snapshot: " + f.Message
	default:
		return "no full snapshot"
	}
}

// Leader returns the pod of the member that leads; nil when none does, or nobody was asked.
func (o Observation) Leader() *Pod {
	for _, member := range o.Etcd.Members {
		if member.Leads() && member.Serves {
			return o.PodFor(member.Ordinal)
		}
	}

	return nil
}

// finalSnapshot decides about the snapshot before something that cannot be undone. Either there is an answer, the snapshot or
// why it goes without one, or the plan that comes back waits for it or takes it.
func finalSnapshot(etcd *druidv1alpha1.Etcd, o Observation, now time.Time, plan Plan) (*FinalSnapshot, Plan) {
	answer := &FinalSnapshot{Generation: etcd.Generation}
	switch {
	case metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation):
		answer.Missing, answer.Message = SnapshotSkipped, "the annotation "+druidv1alpha1.SkipFinalSnapshotAnnotation+" skips it"

		return answer, plan
	case o.neverServed(etcd):
		answer.Missing, answer.Message = SnapshotNoData, "no member has ever served"

		return answer, plan
	}
	calls := o.SnapshotCalls
	if calls.isGood(now) {
		answer.Snapshot, answer.Store = calls.Verified, o.ManagedResource.StorePlace

		return answer, plan
	}
	plan.Stage = StageSnapshot
	until := calls.EndedAt.Add(pauseAfter(calls.Failures))
	switch {
	case calls.Running:
		plan.WaitsFor = "a full snapshot to be stored and verified"
	case calls.Error != "" && now.Before(until):
		plan.WaitsFor = fmt.Sprintf("the next attempt to take a full snapshot, at %s: %s", until.UTC().Format(time.RFC3339), calls.Error)
	default:
		plan.Step = &Step{Kind: StepTakeSnapshot, Object: etcd.Name, UID: etcd.UID}
	}

	return nil, plan
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
func (o Observation) neverServed(etcd *druidv1alpha1.Etcd) bool {
	if o.Failure(SectionLeases) != "" || len(o.MemberLeases) == 0 || o.FullSnapshotLease.Holder != "" || o.Etcd.AnyReachable() {
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
func (o Observation) deltaRevision() int64 {
	revision, err := strconv.ParseInt(o.DeltaSnapshotLease.Holder, 10, 64)
	if err != nil {
		return 0
	}

	return revision
}

// isStopped is true when no member is told to run any more: what was decided before that stands.
func (o Observation) isStopped() bool { return renderedReplicas(o) == 0 }

// hibernationSnapshot decides about the snapshot before a cluster hibernates. Nil without a plan: there is none to be taken.
func hibernationSnapshot(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) (*FinalSnapshot, *Plan) {
	switch {
	case o.isStopped():
		return o.ManagedResource.FinalSnapshot, nil
	case !helper.IsStoreConfigured(etcd):
		return nil, nil
	}
	calls := o.SnapshotCalls
	plan := Plan{ClusterSize: o.ManagedResource.Size, Reason: "spec.replicas is 0; a full snapshot comes before the members stop"}
	answer, plan := finalSnapshot(etcd, o, now, plan)
	switch {
	case answer != nil:
		return answer, nil
	case calls.spent() >= hibernationAttempts && !calls.Running && calls.Verified != nil:
		// Older than it should be, and better than none.
		return &FinalSnapshot{Generation: etcd.Generation, Snapshot: calls.Verified, Store: o.ManagedResource.StorePlace}, nil
	case calls.spent() >= hibernationAttempts && !calls.Running:
		failed := fmt.Sprintf("%d attempts failed", calls.Failures)
		if calls.Late > 0 {
			failed += fmt.Sprintf(" after %d snapshots that were too old before they could be acted upon", calls.Late)
		}

		return &FinalSnapshot{Generation: etcd.Generation, Missing: SnapshotFailed, Message: failed + ", and the volumes are kept: " + calls.Error}, nil
	default:
		plan.Reason = fmt.Sprintf("%s (attempt %d of %d)", plan.Reason, min(calls.spent()+1, hibernationAttempts), hibernationAttempts)

		return nil, &plan
	}
}

// hibernated returns the snapshot with which the members were stopped, if it holds all that they are known to have written, or else
// why it does not count, to be added to a reason. Both are empty where there is none, or members run.
func (o Observation) hibernated() (*FinalSnapshot, string) {
	before, written := o.ManagedResource.FinalSnapshot, o.deltaRevision()
	switch {
	case !o.isStopped() || before == nil || before.Snapshot == nil || len(o.Pods) > 0:
		return nil, ""
	case before.Store != o.ManagedResource.StorePlace:
		return nil, fmt.Sprintf(", and the snapshot from before the hibernation lies in %s, which is used no longer", cmp.Or(before.Store, "a store that was not noted"))
	case written > before.Snapshot.Revision:
		// They serve until the last of them has ended.
		return nil, fmt.Sprintf(", and the members wrote up to revision %d at least after the snapshot from before the hibernation, which holds revision %d: wake the cluster up before it is deleted", written, before.Snapshot.Revision)
	default:
		return before, ""
	}
}

// PlanDiscard decides whether the volumes of a canonical Etcd that is being deleted may go. Its outcome is Done, with the
// FinalSnapshot that allows it, or else what has to happen before. terminating says that the namespace is being deleted, in
// which no snapshot would ever succeed. Nil FinalSnapshot with the outcome Done: there are no volumes, or there is no store.
func PlanDiscard(etcd *druidv1alpha1.Etcd, o Observation, terminating bool, now time.Time) Plan {
	plan := Plan{Stage: StageDone, Reason: "nothing is discarded that a snapshot could hold"}
	if !helper.DeletesClaims(etcd) || !helper.IsStoreConfigured(etcd) || !helper.ManagesPods(etcd) {
		return plan
	}
	for _, section := range []Section{SectionManagedResource, SectionStatefulSet, SectionPods, SectionClaims, SectionLeases} {
		if failure := o.Failure(section); failure != "" && !terminating {
			return Plan{Stage: StageObserve, Reason: "nothing is decided without all facts", WaitsFor: fmt.Sprintf("reading %s: %s", section, failure)}
		}
	}
	if !o.anyClaim() {
		return plan
	}
	plan.Reason = "spec.pvcRetentionPolicy is DeleteAll"
	if terminating {
		plan.FinalSnapshot = &FinalSnapshot{Generation: etcd.Generation, Missing: SnapshotTerminating, Message: "the namespace is being deleted"}

		return plan
	}
	before, butNot := o.hibernated()
	if before != nil {
		plan.FinalSnapshot = before

		return plan
	}
	plan.Reason += butNot
	answer, plan := finalSnapshot(etcd, o, now, plan)
	plan.FinalSnapshot = answer
	if answer == nil {
		plan.Reason += fmt.Sprintf(", and a full snapshot comes before the volumes are deleted; the annotation %s goes on without", druidv1alpha1.SkipFinalSnapshotAnnotation)
	}

	return plan
}
