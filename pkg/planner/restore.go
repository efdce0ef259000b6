// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// EvaluateRestore evaluates the annotation that requests a restore: the restore begins, or it is ignored for a reason, which is a sentence.
// Neither: no restore is requested, facts are missing, or the operator waits. It waits until no member has been healthy for a while, and
// until a Job has verified that the store can be restored from.
func EvaluateRestore(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (begins bool, ignored string) {
	evaluation := evaluateRestore(etcd, o, now)

	return evaluation.begins, evaluation.ignored
}

// restoreEvaluation is the result for a requested restore. Zero: no restore is requested, or facts are missing.
type restoreEvaluation struct {
	begins bool
	// verified are the facts with which the restore begins. Nil: it does not begin, or the user requested no verification.
	verified *state.VerifiedRestore
	// verifies is true while Jobs read the revisions of the store and of the volumes.
	verifies bool
	// ignored is why the restore is ignored. Empty: it is not ignored.
	ignored string
	// waitsFor names the member that may become healthy. Empty: none.
	waitsFor string
	// waitsUntil is when that member may be replaced if it stays unready. Zero: only an event ends the wait.
	waitsUntil time.Time
	// unread names the facts that could not be read. Empty: none, or no restore is requested.
	unread string
}

func evaluateRestore(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) restoreEvaluation {
	value, isRequested := etcd.Annotations[druidv1alpha1.RestoreAnnotation]
	switch {
	case !isRequested:
		return restoreEvaluation{}
	case unreadForRestore(o) != "":
		return restoreEvaluation{unread: unreadForRestore(o)}
	case value != druidv1alpha1.RestoreFromStore && value != druidv1alpha1.RestoreFromStoreUnverified:
		return restoreEvaluation{ignored: fmt.Sprintf("the only values are %q and %q", druidv1alpha1.RestoreFromStore, druidv1alpha1.RestoreFromStoreUnverified)}
	case !helper.ManagesPods(etcd):
		return restoreEvaluation{ignored: "the members are managed externally"}
	case !helper.IsStoreConfigured(etcd):
		return restoreEvaluation{ignored: "spec.backup.store is not set, so that there is nothing to restore from"}
	case helper.IsHibernated(etcd):
		return restoreEvaluation{} // when it wakes
	}
	if served := possiblyHealthyMember(etcd, o); served != "" {
		return restoreEvaluation{ignored: served}
	}
	isUnverified := value == druidv1alpha1.RestoreFromStoreUnverified
	if claim := intactClaim(o); claim != "" && !isUnverified && (o.FullSnapshotLease.RenewTime.IsZero() || o.IsElsewhere(o.FullSnapshotLease)) {
		return restoreEvaluation{ignored: fmt.Sprintf("Lease %s records no full snapshot in this store, and claim %s still has data; %s", helper.FullSnapshotLeaseName(etcd), claim, unverifiedHint())}
	}
	if member, until := mayBecomeReady(etcd, o, now); member != "" {
		return restoreEvaluation{waitsFor: member, waitsUntil: until}
	}
	if isUnverified {
		return restoreEvaluation{begins: true}
	}

	return evaluateRestoreVerification(etcd, o, now)
}

// mayBecomeReady names the pod that may become ready. Empty: none. Pods restart, are recreated, and lose their leader for a moment.
// Therefore all running pods must be as old as members may take to start, and must not have been ready for a while. The time is when the pod
// has been unready long enough. Zero: a watch reports the change.
func mayBecomeReady(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (string, time.Time) {
	for _, member := range etcdcluster.MembersOf(etcd, o, o.StatefulSet.SpecReplicas) {
		pod := member.Pod
		if pod == nil {
			return "pod " + helper.PodName(etcd, member.Ordinal) + " to be created", time.Time{}
		}
		if pod.Deleting {
			return "pod " + pod.Name + " to be gone" + outOfServiceHint(*pod), time.Time{}
		}
		until := etcdcluster.Later(pod.CreationTime.Add(etcdcluster.MemberStartTimeout), pod.ReadyChangedAt.Add(unreadyTime))
		if now.Before(until) {
			return fmt.Sprintf("pod %s to stay unready for %s after its start and for %s after it was last ready", pod.Name, etcdcluster.MemberStartTimeout, unreadyTime), until
		}
	}

	return "", time.Time{}
}

// withRestore adds to the plan why a requested restore has not begun, and when that ends without an event.
func withRestore(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	evaluation := evaluateRestore(etcd, o, now)
	if evaluation.waitsFor == "" || p.WaitsFor == "" {
		return p
	}
	p.WaitsFor += "; the requested restore waits for " + evaluation.waitsFor
	if after := evaluation.waitsUntil.Sub(now); after > 0 && (p.RequeueAfter == 0 || after < p.RequeueAfter) {
		p.RequeueAfter = after
	}

	return p
}

func outOfServiceHint(pod etcdcluster.Pod) string {
	if pod.Node == "" {
		return ""
	}

	return fmt.Sprintf(" (if node %s is shut down and does not recover, taint it with node.kubernetes.io/out-of-service)", pod.Node)
}

// possiblyHealthyMember names a member that is healthy, or may be healthy on an unreachable node. Empty: there is none.
func possiblyHealthyMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) string {
	for _, member := range etcdcluster.MembersOf(etcd, o, max(etcd.Spec.Replicas, etcdcluster.RenderedReplicas(o))) {
		pod := member.Pod
		if member.IsHealthy() || pod != nil && pod.Ready && !pod.Deleting {
			return fmt.Sprintf("member %s is healthy: the operator does not replace a cluster with a healthy member by its snapshots", member.Name)
		}
		if pod != nil && !pod.Deleting && pod.ContainersReady {
			return fmt.Sprintf("pod %s is on unreachable node %s and may be healthy: repair the node, or taint it with node.kubernetes.io/out-of-service if it does not recover", pod.Name, pod.Node)
		}
	}

	return ""
}

// recovery describes what the owner of a cluster without data can do.
func recovery(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) string {
	if !helper.IsStoreConfigured(etcd) {
		return "a manual recovery; there is no store to restore from"
	}

	return fmt.Sprintf("a restore, requested by the annotation %s=%s%s", druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStore, newestSnapshots(o))
}

// newestSnapshots names the snapshots that a restore uses, so that users know how much data it loses.
func newestSnapshots(o etcdcluster.Observation) string {
	timeOf := func(lease etcdcluster.Lease) string {
		if lease.RenewTime.IsZero() {
			return "none"
		}

		return lease.RenewTime.UTC().Format(time.RFC3339)
	}

	return fmt.Sprintf(" (newest full snapshot: %s, newest delta snapshot: %s)", timeOf(o.FullSnapshotLease), timeOf(o.DeltaSnapshotLease))
}

// unreadForRestore names a fact that could not be read, and without which a restore could delete data that exists. Empty: all are known.
func unreadForRestore(o etcdcluster.Observation) string {
	for _, section := range []etcdcluster.Section{etcdcluster.SectionManagedResource, etcdcluster.SectionStatefulSet, etcdcluster.SectionPods, etcdcluster.SectionClaims, etcdcluster.SectionLeases, etcdcluster.SectionRestoreVerification} {
		if failure := o.Failure(section); failure != "" {
			return fmt.Sprintf("reading %s: %s", section, failure)
		}
	}

	return ""
}

// intactClaim is the name of a claim whose volume is not lost. Empty: there is none.
func intactClaim(o etcdcluster.Observation) string {
	for _, claim := range o.Claims {
		if claim.Exists && o.VolumeLostReason(claim.Ordinal) == "" {
			return claim.Name
		}
	}

	return ""
}

// planRestore plans for a cluster that is restored from its backup store. It resets the Leases before the first member starts: otherwise
// that member would search for its previous cluster.
func planRestore(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (plan.Plan, bool) {
	phase := o.State.Restore
	evaluation := evaluateRestore(etcd, o, now)
	switch {
	case phase == state.RestoreDiscard:
		return planDiscard(etcd, o, now), true
	case evaluation.verifies:
		return planRestoreVerification(etcd, o), true
	case phase == state.RestoreRecover && !evaluation.begins:
		return planRecovery(etcd, o, now), true
	case evaluation.begins:
		return plan.Plan{
			Stage: plan.StageRestore, Render: true, ClusterSize: o.State.Size, Restore: state.RestoreDiscard, Verified: evaluation.verified,
			Reason:   fmt.Sprintf("a restore from the store is requested, and no member is healthy: %s; all members are stopped first%s", evaluation.verified.String(), newestSnapshots(o)),
			WaitsFor: "all pods to be gone",
		}, true
	case phase == state.RestoreStart:
		return planRestoredMember(etcd, o, now)
	case isStopped(o) && (evaluation.unread != "" || evaluation.ignored != ""):
		return holdWakeUp(evaluation), true
	default:
		return beginRecovery(etcd, o, now)
	}
}

// holdWakeUp keeps a hibernated cluster stopped until a requested restore is decided. The annotation of a refused restore is removed first,
// with an event that names the reason. Otherwise the event could name a member that has become healthy meanwhile.
func holdWakeUp(evaluation restoreEvaluation) plan.Plan {
	p := plan.Plan{Stage: plan.StageRestore, Reason: "a restore is requested, and no member starts before it is decided", WaitsFor: evaluation.unread}
	if evaluation.ignored != "" {
		p.Reason = "the requested restore has no effect"
		p.WaitsFor = fmt.Sprintf("the annotation %s to be removed: %s", druidv1alpha1.RestoreAnnotation, evaluation.ignored)
	}

	return p
}

// planDiscard deletes what is left of a cluster, one object at a time, and then starts the first member. It retains the volumes, see
// retainVolume.
func planDiscard(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	p := plan.Plan{Stage: plan.StageRestore, Render: true, ClusterSize: o.State.Size, Restore: state.RestoreDiscard}
	if unread := unreadForRestore(o); unread != "" {
		p.Reason, p.WaitsFor = "no data is deleted without all facts", unread

		return p
	}
	if withdrawn := withdrawal(etcd, o, now); withdrawn != "" && o.State.Recovery.IsActive() {
		return repeatRecovery(p, o, withdrawn)
	} else if withdrawn != "" {
		p.Restore, p.PollMembers = state.RestoreNone, true
		p.Reason = "the restore is withdrawn: " + withdrawn
		p.WaitsFor = "this to be recorded"

		return p
	}
	restored := "the cluster is restored from its store (" + o.State.Verified.String() + ")"
	if len(o.Pods) > 0 {
		p.Reason = fmt.Sprintf("%s; %d pods are left", restored, len(o.Pods))
		p.WaitsFor = "pod " + o.Pods[0].Name + " to be gone" + outOfServiceHint(o.Pods[0])

		return p
	}
	if len(o.Inspections) > 0 { // their pods use the claims
		job := o.Inspections[0]
		p.Reason = fmt.Sprintf("%s; Job %s, which has inspected a volume, is deleted", restored, job.Name)
		if job.Deleting {
			p.WaitsFor = "Job " + job.Name + " to be gone"
		} else {
			p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
		}

		return p
	}
	if job := o.RecoveryJob; job.Exists && job.OwnerUID == etcd.UID { // its pod uses a claim
		p.Reason = fmt.Sprintf("%s; Job %s, which has copied the data into the store, is deleted", restored, job.Name)
		if job.Deleting {
			p.WaitsFor = "Job " + job.Name + " to be gone"
		} else {
			p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
		}

		return p
	}
	for _, claim := range o.Claims {
		if !claim.Exists {
			continue
		}
		if claim.Deleting {
			p.Reason = fmt.Sprintf("%s; claim %s is deleted", restored, claim.Name)
			p.PollMembers = true // no pod uses it any more
			p.WaitsFor = "claim " + claim.Name + " to be gone"

			return p
		}
		decided, volume := retainVolume(p, o, claim, now)
		decided.Reason = fmt.Sprintf("%s; claim %s is deleted%s", restored, claim.Name, volume)
		if decided.Step == nil && decided.WaitsFor == "" {
			decided.Step = plan.DeleteClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}}
		}

		return decided
	}

	return thenStart(p, etcd, o)
}

// repeatRecovery copies the data of a recovery again. The members must not start again, because the store may have a history that they lack.
func repeatRecovery(p plan.Plan, o etcdcluster.Observation, why string) plan.Plan {
	recovery := o.State.Recovery
	if recovery.Source == state.RecoverMembers && !claimWithUID(o, recovery.ClaimUID).Exists {
		p.Reason = fmt.Sprintf("%s; claim %s, which has the data, is deleted", recovery, recovery.Claim)
		p.WaitsFor = "the previous backup store in the spec: " + why

		return p
	}

	return copyAgain(p, o, why)
}

// withdrawal is why a verified restore that has begun deletes nothing any more. Empty: it continues. Until the pods are gone, the members may
// form a quorum again and acknowledge writes, and a user may change the store.
func withdrawal(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) string {
	verified := o.State.Verified
	if verified == nil {
		return ""
	}
	if verified.Store != "" && o.TargetStore != "" && verified.Store != o.TargetStore {
		return fmt.Sprintf("it was verified with %s, and the first member would restore from %s. Request the restore again", verified.Store, o.TargetStore)
	}
	known := recordedRevisions(o)
	if verified.AcceptedRevision > 0 || highestOf(known) <= max(verified.Known, verified.Revision) {
		return ""
	}
	o.RestoreVerification = etcdcluster.RestoreVerification{Store: verified.Store, Result: &etcdcluster.Inspection{Revision: verified.Revision, Keys: verified.Keys}}

	return compare(etcd, o, volumeRevisions{known: known}, fmt.Sprintf(" together with %s=%s", druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStore), now).refused
}

// thenStart resets the Leases, and renders the first member when all Leases are empty.
func thenStart(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) plan.Plan {
	for _, lease := range o.MemberLeases {
		if lease.Holder != "" {
			p.Reason = fmt.Sprintf("the cluster is restored from its store; Lease %s still has a holder", lease.Name)
			p.Step = plan.ResetLease{Meta: plan.Meta{Object: lease.Name, UID: lease.UID}}

			return p
		}
	}
	for _, lease := range []etcdcluster.Lease{o.FullSnapshotLease, o.DeltaSnapshotLease} {
		// The sidecar leaves a Lease unchanged until its own snapshots have higher revisions. Without a verification the operator does not
		// know what the store has.
		revision, err := strconv.ParseInt(lease.Holder, 10, 64)
		if err != nil || o.State.Verified != nil && revision <= o.State.Verified.Revision {
			continue
		}
		p.Reason = fmt.Sprintf("the cluster is restored from its store without a verification; Lease %s records revision %d, which the store may not have any more", lease.Name, revision)
		if verified := o.State.Verified; verified != nil {
			p.Reason = fmt.Sprintf("the cluster is restored from its store (%s); Lease %s records revision %d, which the store does not have any more", verified, lease.Name, revision)
		}
		p.Step = plan.ResetLease{Meta: plan.Meta{Object: lease.Name, UID: lease.UID}}

		return p
	}
	p.Reason = "nothing is left of the cluster; its first member restores from the store"
	if _, isRequested := etcd.Annotations[druidv1alpha1.RestoreAnnotation]; isRequested {
		p.WaitsFor = "the annotation " + druidv1alpha1.RestoreAnnotation + " to be removed"

		return p
	}
	p.Replicas, p.ClusterSize, p.Restore = 1, 1, state.RestoreStart
	p.WaitsFor = "pod " + helper.PodName(etcd, 0) + " to be created and to be ready"

	return p
}

// joining records, with the plan for a cluster whose first member was restored, that the restore continues until nothing is left to do.
func joining(p plan.Plan, o etcdcluster.Observation) plan.Plan {
	phase := o.State.Restore
	if (phase == state.RestoreStart || phase == state.RestoreJoin) && p.Stage != plan.StageDone {
		p.Restore = state.RestoreJoin
	}

	return p
}

// planRestoredMember waits for the first member. When it is healthy, the restore has ended, and other members may join. Until then only the
// sidecar writes to its volume: it restores next to the data directory, and renames the result when it is complete.
func planRestoredMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (plan.Plan, bool) {
	pod := o.PodFor(0)
	if pod != nil && pod.Ready && !pod.Deleting {
		return plan.Plan{}, false
	}
	p := plan.Plan{Stage: plan.StageRestore, Render: true, Replicas: 1, ClusterSize: 1, Restore: state.RestoreStart}
	if pod != nil && !pod.Deleting && pod.IsOutdated(o.StatefulSet) {
		return replaceSinglePod(etcd, o, p, now), true
	}
	p.Reason = "the first member restores from the store" + newestSnapshots(o)
	p.WaitsFor = awaitedSinglePod(etcd, o, now)

	return p, true
}

// isBeingRestored is true while the volumes hold only data from the backup store.
func isBeingRestored(o etcdcluster.Observation) bool {
	phase := o.State.Restore

	return phase == state.RestoreDiscard || phase == state.RestoreStart
}
