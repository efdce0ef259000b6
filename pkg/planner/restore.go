// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
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
	// verifies is true if the restore begins after a Job has verified that the store can be restored from.
	verifies bool
	// ignored is why the restore is ignored. Empty: it is not ignored.
	ignored string
	// waitsFor names the member that may become healthy. Empty: none.
	waitsFor string
}

func evaluateRestore(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) restoreEvaluation {
	value, isRequested := etcd.Annotations[druidv1alpha1.RestoreAnnotation]
	switch {
	case !isRequested || !knowsForRestore(o):
		return restoreEvaluation{}
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
	claim := intactClaim(o)
	isVerified := claim == "" || value == druidv1alpha1.RestoreFromStoreUnverified
	if !isVerified && (o.FullSnapshotLease.RenewTime.IsZero() || o.IsElsewhere(o.FullSnapshotLease)) {
		return restoreEvaluation{ignored: fmt.Sprintf("Lease %s records no full snapshot in this store, and claim %s still has data; %s", helper.FullSnapshotLeaseName(etcd), claim, unverifiedHint())}
	}
	if member := mayBecomeReady(etcd, o, now); member != "" {
		return restoreEvaluation{waitsFor: member}
	}
	if isVerified || isBeingRestored(o) {
		return restoreEvaluation{begins: true}
	}

	return evaluateRestoreVerification(etcd, o, claim)
}

// mayBecomeReady names the pod that may become ready. Empty: none. Pods restart, are recreated, and lose their leader for a moment.
// Therefore all running pods must be as old as members may take to start, and must not have been ready for a while.
func mayBecomeReady(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) string {
	for _, member := range etcdcluster.MembersOf(etcd, o, o.StatefulSet.SpecReplicas) {
		switch pod := member.Pod; {
		case pod == nil:
			return "pod " + helper.PodName(etcd, member.Ordinal) + " to be created"
		case pod.Deleting:
			return "pod " + pod.Name + " to be gone" + outOfServiceHint(*pod)
		case now.Sub(pod.CreationTime) < etcdcluster.MemberStartTimeout || now.Sub(pod.ReadyChangedAt) < unreadyTime:
			return fmt.Sprintf("pod %s to stay unready for %s after its start and for %s after it was last ready", pod.Name, etcdcluster.MemberStartTimeout, unreadyTime)
		}
	}

	return ""
}

// withRestore adds to the plan why a requested restore has not begun.
func withRestore(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	if member := evaluateRestore(etcd, o, now).waitsFor; member != "" && p.WaitsFor != "" {
		p.WaitsFor += "; the requested restore waits for " + member
	}

	return p
}

func outOfServiceHint(pod etcdcluster.Pod) string {
	if pod.Node == "" {
		return ""
	}

	return fmt.Sprintf(" (if node %s does not recover, taint it with node.kubernetes.io/out-of-service)", pod.Node)
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

// knowsForRestore is true if all facts were read without which a restore could delete data that exists.
func knowsForRestore(o etcdcluster.Observation) bool {
	for _, section := range []etcdcluster.Section{etcdcluster.SectionManagedResource, etcdcluster.SectionStatefulSet, etcdcluster.SectionPods, etcdcluster.SectionClaims, etcdcluster.SectionLeases, etcdcluster.SectionRestoreVerification} {
		if o.Failure(section) != "" {
			return false
		}
	}

	return true
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
		return planDiscard(etcd, o), true
	case evaluation.verifies:
		return planRestoreVerification(etcd, o), true
	case evaluation.begins:
		return plan.Plan{
			Stage: plan.StageRestore, Render: true, ClusterSize: o.State.Size, Restore: state.RestoreDiscard,
			Reason:   "a restore from the store is requested, and no member is healthy; all members are stopped first" + newestSnapshots(o),
			WaitsFor: "all pods to be gone",
		}, true
	case phase == state.RestoreStart:
		return planRestoredMember(etcd, o, now)
	default:
		return plan.Plan{}, false
	}
}

// planDiscard deletes what is left of a cluster, one object at a time, and then starts the first member.
func planDiscard(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) plan.Plan {
	p := plan.Plan{Stage: plan.StageRestore, Render: true, ClusterSize: o.State.Size, Restore: state.RestoreDiscard}
	if !knowsForRestore(o) {
		p.Reason, p.WaitsFor = "no data is deleted without all facts", "claims and leases to be read"

		return p
	}
	if len(o.Pods) > 0 {
		p.Reason = fmt.Sprintf("the cluster is restored from its store; %d pods are left", len(o.Pods))
		p.WaitsFor = "pod " + o.Pods[0].Name + " to be gone" + outOfServiceHint(o.Pods[0])

		return p
	}
	for _, claim := range o.Claims {
		if !claim.Exists {
			continue
		}
		p.Reason = fmt.Sprintf("the cluster is restored from its store; claim %s and its volume are deleted", claim.Name)
		if claim.Deleting {
			p.PollMembers = true // no pod uses it any more
			p.WaitsFor = "claim " + claim.Name + " to be gone"
		} else {
			p.Step = plan.DeleteClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}}
		}

		return p
	}

	return thenStart(p, etcd, o)
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
	p.Reason = "nothing is left of the cluster; its first member restores from the store"
	if _, isRequested := etcd.Annotations[druidv1alpha1.RestoreAnnotation]; isRequested {
		p.WaitsFor = "the annotation " + druidv1alpha1.RestoreAnnotation + " to be removed"

		return p
	}
	p.Replicas, p.ClusterSize, p.Restore = 1, 1, state.RestoreStart
	p.WaitsFor = awaitedSinglePod(etcd, nil)

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
	p.WaitsFor = awaitedSinglePod(etcd, pod)

	return p, true
}

// isFor is true for a Job whose result is about the current store, and has not been emitted yet.
func isFor(r etcdcluster.RestoreVerification, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	isSameStore := o.StoreLocation == "" || r.Store == o.StoreLocation

	return r.Exists && !r.Deleting && !r.Recorded && r.OwnerUID == etcd.UID && isSameStore
}

// isBeingRestored is true while the volumes hold only data from the backup store.
func isBeingRestored(o etcdcluster.Observation) bool {
	phase := o.State.Restore

	return phase == state.RestoreDiscard || phase == state.RestoreStart
}

// evaluateRestoreVerification evaluates the Job for a claim that has data.
func evaluateRestoreVerification(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, claim string) restoreEvaluation {
	job := o.RestoreVerification
	switch {
	case !isFor(job, etcd, o) || !job.Failed && !job.Succeeded:
		return restoreEvaluation{verifies: true}
	case job.Failed:
		return restoreEvaluation{ignored: fmt.Sprintf("Job %s could not restore from the store: %s. Claim %s still has data, so the operator deletes no data. Repair the store and request the restore again; %s",
			job.Name, job.Message, claim, unverifiedHint())}
	default:
		return restoreEvaluation{begins: true}
	}
}

func unverifiedHint() string {
	return fmt.Sprintf("if you have checked the store yourself, or do not need that data, set %s=%s", druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStoreUnverified)
}

// planRestoreVerification creates the Job, and waits for it. It changes nothing else.
func planRestoreVerification(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) plan.Plan {
	count, job := etcdcluster.RenderedReplicas(o), o.RestoreVerification
	p := plan.Plan{
		// Without a rendering there is no ServiceAccount for the Job.
		Stage: plan.StageRestore, Render: !o.ManagedResource.Exists, Replicas: count, ClusterSize: max(o.State.Size, count),
		Restore: o.State.Restore,
		Reason:  fmt.Sprintf("a restore is requested, and claim %s still has data: no data is deleted before a Job has restored the newest snapshots next to it%s", intactClaim(o), newestSnapshots(o)),
	}
	switch {
	case !job.Exists:
		p.Step = plan.VerifyRestore{Meta: plan.Meta{Object: helper.RestoreVerificationJobName(etcd), UID: etcd.UID}}
	case job.Deleting:
		p.WaitsFor = fmt.Sprintf("Job %s, of an earlier restore, to be gone", job.Name)
	case !isFor(job, etcd, o):
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
	default:
		p.WaitsFor = fmt.Sprintf("Job %s to restore from the store", job.Name)
		if job.Message != "" {
			p.WaitsFor += ": " + job.Message + " (" + unverifiedHint() + ")"
		}
	}

	return p
}
