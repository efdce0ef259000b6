// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Before members stop for good, or data is deleted, the backup store must have all acknowledged writes. Therefore the operator takes and
// verifies a full snapshot. This file decides when, how often, and what happens without one.

const (
	// firstPause is the pause after the first attempt that failed; it doubles with each, up to longestPause.
	firstPause   = 15 * time.Second
	longestPause = 5 * time.Minute
)

// finalSnapshot decides about the snapshot before an irreversible step. It returns the snapshot, or why the operator continues without one,
// or else the plan that waits for it or takes it.
func finalSnapshot(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time, p plan.Plan) (*state.FinalSnapshot, plan.Plan) {
	result := &state.FinalSnapshot{Generation: etcd.Generation}
	switch {
	case metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation):
		result.Missing, result.Message = state.SnapshotSkipped, "the annotation "+druidv1alpha1.SkipFinalSnapshotAnnotation+" skips it"

		return result, p
	case wasNeverHealthy(o, etcd):
		result.Missing, result.Message = state.SnapshotNoData, "no member has ever been healthy"

		return result, p
	}
	attempts, use := o.SnapshotAttempts, o.LeaderStoreUse(o.State.Store)
	if attempts.IsFresh(now) {
		if location, isCurrent := storeOfSnapshot(o, *attempts.Verified); isCurrent {
			result.Snapshot, result.Store = attempts.Verified, location

			return result, p
		}
	}
	switch {
	case !use.IsKnown: // a watch reports the new pod
		p.Stage, p.WaitsFor = plan.StageSnapshot, waitsForRestart(o)

		return nil, p
	case now.Before(use.Since):
		p.Stage, p.RequeueAfter = plan.StageSnapshot, max(time.Second, use.Since.Sub(now))
		sidecars := "all sidecars"
		if o.Leader() != nil {
			sidecars = "the sidecar of the leader"
		}
		p.WaitsFor = fmt.Sprintf("%s to use the changed endpoint or account of the store, until %s", sidecars, use.Since.UTC().Format(time.RFC3339))

		return nil, p
	}
	p.Stage = plan.StageSnapshot
	until := attempts.EndedAt.Add(pauseAfter(attempts.Failures))
	switch {
	case attempts.Running:
		p.WaitsFor = "a full snapshot to be stored and verified"
	case attempts.Error != "" && now.Before(until):
		p.WaitsFor = fmt.Sprintf("the next attempt to take a full snapshot, at %s: %s", until.UTC().Format(time.RFC3339), attempts.Error)
	default:
		p.Step = plan.TakeSnapshot{Meta: plan.Meta{Object: etcd.Name, UID: etcd.UID}}
	}

	return nil, p
}

// storeOfSnapshot returns the store of a verified snapshot. Empty: it is not known. False: the sidecar that took the snapshot may not have used
// the changed endpoint or account of the store.
func storeOfSnapshot(o etcdcluster.Observation, verified state.VerifiedSnapshot) (string, bool) {
	use := etcdcluster.StoreUseOf(o.State.Store, []etcdcluster.Pod{{CreationTime: verified.PodCreationTime}})
	if !use.IsKnown || verified.At.Before(use.Since) {
		return "", false
	}

	return verified.Store, true
}

// waitsForRestart is what a full snapshot waits for if the sidecar of the leader uses a changed endpoint only after a restart. Without a leader,
// any member may become the leader.
func waitsForRestart(o etcdcluster.Observation) string {
	leader := o.Leader()
	if leader == nil {
		return fmt.Sprintf("the pods to be replaced, because their sidecars read the endpoint of the store only when they start: delete these pods one at a time, or set the annotation %s", druidv1alpha1.SkipFinalSnapshotAnnotation)
	}
	remedy, size, others := "delete this pod", int(etcdcluster.LastSize(o)), -1 // the leader is one of them
	for _, member := range o.Etcd.Members {
		if member.Healthy {
			others++
		}
	}
	switch {
	case size <= 1:
		remedy += ", which interrupts etcd"
	case !etcdcluster.IsQuorate(others, size):
		remedy += " when another member is healthy again, because the cluster has no quorum without it now"
	}

	return fmt.Sprintf("pod %s of the leader to be replaced, because its sidecar reads the endpoint of the store only when it starts: %s, or set the annotation %s", leader.Name, remedy, druidv1alpha1.SkipFinalSnapshotAnnotation)
}

func pauseAfter(failures int) time.Duration {
	pause := firstPause
	for range failures - 1 {
		pause = min(2*pause, longestPause)
	}

	return pause
}

// wasNeverHealthy is true if it is certain that no member has ever been healthy. There are Leases, none has a holder, and no revision of a
// write is recorded. No volume is older than the Etcd. Leases alone are no proof: the operator or a user may have deleted and recreated them.
// An older volume was kept, without its Leases, when an Etcd of the same name was deleted.
func wasNeverHealthy(o etcdcluster.Observation, etcd *druidv1alpha1.Etcd) bool {
	if o.Failure(etcdcluster.SectionLeases) != "" || len(o.MemberLeases) == 0 || o.FullSnapshotLease.Holder != "" || o.Etcd.AnyReachable() {
		return false
	}
	if highestOf(recordedRevisions(o)) > emptyRevision {
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

// isStopped is true if no member is rendered: the decisions from before that remain.
func isStopped(o etcdcluster.Observation) bool { return etcdcluster.RenderedReplicas(o) == 0 }

// hibernated returns the snapshot with which the members were stopped, if it holds all their known writes. Otherwise it returns why the
// snapshot does not count, as text for a reason. Both are empty if there is none, or if members run.
func hibernated(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (*state.FinalSnapshot, string) {
	before, written := o.State.FinalSnapshot, evidence.HighestRevision(etcd, o)
	if !recordsLostRevision(etcd, o, o.DeltaSnapshotLease, now) {
		written = max(written, o.DeltaSnapshotLease.Revision())
	}
	switch {
	case !isStopped(o) || before == nil || before.Snapshot == nil || len(o.Pods) > 0:
		return nil, ""
	case !state.IsSameStore(before.Store, o.StoreLocation):
		return nil, fmt.Sprintf(", and the snapshot from before the hibernation is in %s, which is not used any more", cmp.Or(before.Store, "a store that was not recorded"))
	case written > before.Snapshot.Revision:
		// They accept writes until the last of them has ended.
		return nil, fmt.Sprintf(", and the members wrote up to revision %d at least after the snapshot from before the hibernation, which holds revision %d: these writes are only on the volumes, and no member starts while the Etcd is being deleted", written, before.Snapshot.Revision)
	default:
		return before, ""
	}
}

// compareVolumes adds to the plan for a hibernated cluster the snapshot from before the hibernation, if no volume has a higher revision. The members
// accept writes until the last of them has ended, and no member runs that could take a snapshot of them. Jobs read the revisions of the volumes. If
// a revision is higher or cannot be read, the plan waits until a user skips the snapshot.
func compareVolumes(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, before *state.FinalSnapshot, p plan.Plan, now time.Time) plan.Plan {
	if before.Snapshot.LastRevision > 0 { // etcd has rejected all writes since
		p.FinalSnapshot = before

		return p
	}
	p.Stage = plan.StageObserve
	if failure := o.Failure(etcdcluster.SectionRestoreVerification); failure != "" {
		p.WaitsFor = fmt.Sprintf("a successful read of %s: %s", etcdcluster.SectionRestoreVerification, failure)
		p.Reason = fmt.Sprintf("nothing is decided without all facts; the annotation %s continues without a full snapshot", druidv1alpha1.SkipFinalSnapshotAnnotation)

		return p
	}
	volumes := readVolumes(etcd, o)
	if failed := failedInspection(o, now); failed != nil {
		volumes.step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: failed.Name, UID: failed.UID}}
	}
	higher := slices.DeleteFunc(volumes.known, func(one knownRevision) bool { return one.revision <= before.Snapshot.Revision })
	switch {
	case volumes.step != nil && mayCreatePods(o.StatefulSet):
		p.WaitsFor = fmt.Sprintf("StatefulSet %s to have no replicas", helper.StatefulSetName(etcd))
	case volumes.step != nil:
		p.Step = volumes.step
	case volumes.waitsFor != "":
		p.WaitsFor = volumes.waitsFor
	case len(higher) > 0 || len(volumes.unknown) > 0:
		p.Stage, p.WaitsFor = plan.StageHalted, "the annotation "+druidv1alpha1.SkipFinalSnapshotAnnotation
		p.Reason += fmt.Sprintf(", and the snapshot from before the hibernation holds revision %d, but %s: writes or expired leases after that are only on the volumes, and no member starts while the Etcd is being deleted",
			before.Snapshot.Revision, differences(higher, volumes.unknown))

		return p
	default:
		p.Stage, p.FinalSnapshot = plan.StageDone, before

		return p
	}
	p.Reason += fmt.Sprintf(", and the snapshot from before the hibernation holds revision %d: the volumes are deleted only if none of them has a higher revision; the annotation %s skips this",
		before.Snapshot.Revision, druidv1alpha1.SkipFinalSnapshotAnnotation)

	return p
}

// failedInspection returns a Job that could not read a volume, and that is repeated because the errors of a volume can be temporary. Nil: there is
// none.
func failedInspection(o etcdcluster.Observation, now time.Time) *etcdcluster.ClaimInspection {
	index := slices.IndexFunc(o.Inspections, func(job etcdcluster.ClaimInspection) bool {
		return !job.Deleting && job.Failed && !job.Empty && now.Sub(job.CreationTime) >= repeatInspection
	})
	if index < 0 {
		return nil
	}

	return &o.Inspections[index]
}

// differences names the volumes whose revisions are higher or unknown.
func differences(higher []knownRevision, unknown []string) string {
	var sentences []string
	if len(higher) > 0 {
		sentences = append(sentences, sourcesOf(higher))
	}

	return strings.Join(append(sentences, unknown...), "; ")
}

// mayCreatePods is true if the StatefulSet controller may still create a pod, whose member writes to its volume.
func mayCreatePods(set etcdcluster.StatefulSet) bool {
	return set.Exists && (set.SpecReplicas > 0 || set.ObservedGeneration < set.Generation)
}

// ForDeletion decides whether the volumes of a canonical Etcd that is being deleted may be deleted. The outcome is Done with the
// FinalSnapshot that allows it, or else what must happen before. terminating is true if the namespace is being deleted, in which no
// snapshot can succeed. Nil FinalSnapshot with the outcome Done: there are no volumes, or there is no store.
func ForDeletion(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, terminating bool, now time.Time) plan.Plan {
	p := plan.Plan{Stage: plan.StageDone, Reason: "no data is deleted that a snapshot could hold"}
	if !helper.DeletesClaims(etcd) || !helper.IsStoreConfigured(etcd) || !helper.ManagesPods(etcd) {
		return p
	}
	for _, section := range []etcdcluster.Section{etcdcluster.SectionManagedResource, etcdcluster.SectionStatefulSet, etcdcluster.SectionPods, etcdcluster.SectionClaims, etcdcluster.SectionLeases} {
		failure := o.Failure(section)
		if failure == "" || terminating || metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation) {
			continue // no fact is needed to delete without a snapshot
		}

		return plan.Plan{
			Stage: plan.StageObserve, WaitsFor: fmt.Sprintf("a successful read of %s: %s", section, failure),
			Reason: fmt.Sprintf("nothing is decided without all facts; the annotation %s continues without a full snapshot", druidv1alpha1.SkipFinalSnapshotAnnotation),
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
	if WaitsForAcceptance(etcd, o) {
		p.Stage = plan.StageSnapshot
		p.Reason += ", and a full snapshot of a cluster that has lost acknowledged writes does not replace its volumes"
		p.WaitsFor = fmt.Sprintf("%s, or the annotation %s", acceptHint(o), druidv1alpha1.SkipFinalSnapshotAnnotation)

		return p
	}
	before, butNot := hibernated(etcd, o, now)
	if before != nil && !metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation) {
		return compareVolumes(etcd, o, before, p, now)
	}
	p.Reason += butNot
	result, p := completeSnapshot(etcd, o, now, p)
	if p.FinalSnapshot = result; result == nil {
		p.Reason += fmt.Sprintf(", and a snapshot of all writes comes before the volumes are deleted; the annotation %s skips it", druidv1alpha1.SkipFinalSnapshotAnnotation)
	}

	return p
}

// completeSnapshot is finalSnapshot for data that is deleted afterwards: etcd must have rejected all writes since.
func completeSnapshot(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time, p plan.Plan) (*state.FinalSnapshot, plan.Plan) {
	if verified := o.SnapshotAttempts.Verified; verified != nil && mayHaveWrittenSince(o, verified.LastRevision) {
		o.SnapshotAttempts.Verified = nil
	}
	result, p := finalSnapshot(etcd, o, now, p)
	if step, is := p.Step.(plan.TakeSnapshot); is {
		step.RejectWrites = true
		p.Step = step
	}

	return result, p
}

// mayHaveWrittenSince is true if clients may have written after that revision. 0: etcd did not reject writes. A user can end the rejection, and
// an alarm of a full database replaces it. A quorum then may return a higher revision.
func mayHaveWrittenSince(o etcdcluster.Observation, last int64) bool {
	if last == 0 || o.Etcd.AnyReachable() && !o.Etcd.RejectsWrites() {
		return true
	}

	return slices.ContainsFunc(o.Etcd.Members, func(m etcdcluster.EndpointStatus) bool { return m.Healthy && m.QuorumRevision > last })
}

// WaitsForAcceptance is true if no full snapshot counts as the final one: the cluster has lost acknowledged writes. It is false if a user has
// accepted that, or skips the snapshot.
func WaitsForAcceptance(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	return evidence.IsRolledBack(etcd, o) && !metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation)
}

// holdDiscard withholds the step of a plan that deletes a volume while WaitsForAcceptance: the volume may have the lost writes. A restore and a recovery
// delete the volumes nevertheless, because a user or the recovery policy has chosen that.
func holdDiscard(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, p plan.Plan) plan.Plan {
	if p.Step == nil || !plan.TraitsOf(p.Step).DiscardsData || p.Restore == state.RestoreDiscard || !WaitsForAcceptance(etcd, o) {
		return p
	}
	if claim := claimWithUID(o, plan.MetaOf(p.Step).UID); !claim.MayHaveData() || claim.Volume == "" {
		return p
	}
	p.Reason += "; the cluster has lost acknowledged writes, which the volume may have"
	p.WaitsFor, p.Step = fmt.Sprintf("%s, or the annotation %s", acceptHint(o), druidv1alpha1.SkipFinalSnapshotAnnotation), nil

	return p
}

// acceptHint says which revision has to be accepted, and how.
func acceptHint(o etcdcluster.Observation) string {
	revision := o.State.Evidence.RolledBack.Revision

	return fmt.Sprintf("revision %d, which the annotation %s=%d accepts", revision, druidv1alpha1.AcceptRevisionAnnotation, revision)
}
