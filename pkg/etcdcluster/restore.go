// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// RestorePhase is how far the restore of a cluster from its store is. It is remembered on the ManagedResource.
type RestorePhase string

// The phases.
const (
	// RestoreNone means that no restore goes on.
	RestoreNone RestorePhase = ""
	// RestoreDiscard stops the members, and discards their volumes and what their leases say. What a restore left that was
	// interrupted goes with them.
	RestoreDiscard RestorePhase = "discard"
	// RestoreStart starts the first member alone, which restores. The others join it as learners.
	RestoreStart RestorePhase = "start"
	// RestoreJoin lets the others join the first member, and ends when all of them serve and know of each other.
	RestoreJoin RestorePhase = "join"
)

// JudgeRestore says what becomes of the annotation that asks for a restore: it begins one, or it is ignored for a reason that is a
// sentence. Neither: nobody asks, too little is known, it has to be seen for a while yet that nobody serves, or that the store holds
// what would be restored.
func JudgeRestore(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) (begins bool, ignored string) {
	verdict := judgeRestore(etcd, o, now)

	return verdict.begins, verdict.ignored
}

// restoreVerdict is what becomes of a restore that is asked for. Zero: nobody asks, or too little is known.
type restoreVerdict struct {
	begins bool
	// rehearses is true where it begins once a Job has shown that the store can be restored from.
	rehearses bool
	// ignored says why there is none. Empty: it is not ignored.
	ignored string
	// waitsFor is which member may be about to serve. Empty: none.
	waitsFor string
}

func judgeRestore(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) restoreVerdict {
	value, asked := etcd.Annotations[druidv1alpha1.RestoreAnnotation]
	switch {
	case !asked || !knowsForRestore(o):
		return restoreVerdict{}
	case value != druidv1alpha1.RestoreFromStore && value != druidv1alpha1.RestoreFromStoreUnverified:
		return restoreVerdict{ignored: fmt.Sprintf("the only values are %q and %q", druidv1alpha1.RestoreFromStore, druidv1alpha1.RestoreFromStoreUnverified)}
	case !helper.ManagesPods(etcd):
		return restoreVerdict{ignored: "the members are run by somebody else"}
	case !helper.IsStoreConfigured(etcd):
		return restoreVerdict{ignored: "spec.backup.store is not set, so that there is nothing to restore from"}
	case helper.IsHibernated(etcd):
		return restoreVerdict{} // when it wakes
	}
	if served := mayServe(etcd, o); served != "" {
		return restoreVerdict{ignored: served}
	}
	claim := o.remainingData()
	isVerified := claim == "" || value == druidv1alpha1.RestoreFromStoreUnverified
	if !isVerified && (o.FullSnapshotLease.RenewTime.IsZero() || o.IsElsewhere(o.FullSnapshotLease)) {
		return restoreVerdict{ignored: fmt.Sprintf("no full snapshot is known of in lease %s, and claim %s still has data; %s", helper.FullSnapshotLeaseName(etcd), claim, unverifiedHint())}
	}
	if member := unrest(etcd, o, now); member != "" {
		return restoreVerdict{waitsFor: member}
	}
	if isVerified || o.isBeingRestored() {
		return restoreVerdict{begins: true}
	}

	return judgeRehearsal(etcd, o, claim)
}

// unrest says which member may be about to serve, empty when none is: pods restart, are made anew, and lose their leader for a
// moment. All that run must have been there for as long as members take to start, and not have been ready for a while.
func unrest(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) string {
	for _, member := range membersOf(etcd, o, o.StatefulSet.SpecReplicas) {
		switch pod := member.Pod; {
		case pod == nil:
			return "pod " + helper.PodName(etcd, member.Ordinal) + " to be created"
		case pod.Deleting:
			return "pod " + pod.Name + " to be gone" + outOfServiceHint(*pod)
		case now.Sub(pod.CreationTime) < startTime || now.Sub(pod.ReadyChangedAt) < unreadyTime:
			return fmt.Sprintf("pod %s not to serve for %s after its start and %s after it was last ready", pod.Name, startTime, unreadyTime)
		}
	}

	return ""
}

// withRestore tells that a restore is asked for, and why it has not begun.
func (p Plan) withRestore(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) Plan {
	if member := judgeRestore(etcd, o, now).waitsFor; member != "" && p.WaitsFor != "" {
		p.WaitsFor += "; the restore that is asked for waits for " + member
	}

	return p
}

func outOfServiceHint(pod Pod) string {
	if pod.Node == "" {
		return ""
	}

	return fmt.Sprintf(" (if node %s does not come back, taint it node.kubernetes.io/out-of-service)", pod.Node)
}

// mayServe says which member serves, or may serve where nobody sees it; empty when none does.
func mayServe(etcd *druidv1alpha1.Etcd, o Observation) string {
	for _, member := range membersOf(etcd, o, max(etcd.Spec.Replicas, renderedReplicas(o))) {
		pod := member.Pod
		if member.Serves() || pod != nil && pod.Ready && !pod.Deleting {
			return fmt.Sprintf("member %s serves: a cluster that serves is not replaced by its snapshots", member.Name)
		}
		if pod != nil && !pod.Deleting && pod.ContainersReady {
			return fmt.Sprintf("pod %s is out of sight on node %s and may serve: mend the node, or taint it node.kubernetes.io/out-of-service when it does not come back", pod.Name, pod.Node)
		}
	}

	return ""
}

// recovery says what the owner of a cluster whose data is lost can do.
func recovery(etcd *druidv1alpha1.Etcd, o Observation) string {
	if !helper.IsStoreConfigured(etcd) {
		return "a recovery by hand; there is no store to restore from"
	}

	return fmt.Sprintf("a restore to be asked for by the annotation %s=%s%s", druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStore, newestSnapshots(o))
}

func knowsForRestore(o Observation) bool {
	for _, section := range []Section{SectionManagedResource, SectionStatefulSet, SectionPods, SectionClaims, SectionLeases, SectionRehearsal} {
		if o.Failure(section) != "" {
			return false
		}
	}

	return true
}

// remainingData is the name of a claim whose volume is not lost; empty when there is none.
func (o Observation) remainingData() string {
	for _, claim := range o.Claims {
		if claim.Exists && !claim.Lost && o.lossOf(claim.Ordinal) == "" {
			return claim.Name
		}
	}

	return ""
}

// planRestore plans for a cluster that is restored from its store. The leases are emptied before the first member starts: it would
// look for the cluster that it was part of.
func planRestore(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) (Plan, bool) {
	phase := RestorePhase(o.ManagedResource.Restore)
	verdict := judgeRestore(etcd, o, now)
	switch {
	case phase == RestoreDiscard:
		return planDiscard(etcd, o), true
	case verdict.rehearses:
		return planRehearsal(etcd, o), true
	case verdict.begins:
		return Plan{
			Stage: StageRestore, Render: true, ClusterSize: o.ManagedResource.Size, Restore: RestoreDiscard,
			Reason:   "a restore from the store is asked for, and nobody serves; all members are stopped first" + newestSnapshots(o),
			WaitsFor: "all pods to be gone",
		}, true
	case phase == RestoreStart:
		return planRestoredMember(etcd, o, now)
	default:
		return Plan{}, false
	}
}

// planDiscard discards what is left of a cluster, one thing at a time, and then starts the first member.
func planDiscard(etcd *druidv1alpha1.Etcd, o Observation) Plan {
	plan := Plan{Stage: StageRestore, Render: true, ClusterSize: o.ManagedResource.Size, Restore: RestoreDiscard}
	if !knowsForRestore(o) {
		plan.Reason, plan.WaitsFor = "nothing is discarded without all facts", "claims and leases to be read"

		return plan
	}
	if len(o.Pods) > 0 {
		plan.Reason = fmt.Sprintf("the cluster is restored from its store; %d pods are left", len(o.Pods))
		plan.WaitsFor = "pod " + o.Pods[0].Name + " to be gone" + outOfServiceHint(o.Pods[0])

		return plan
	}
	for _, claim := range o.Claims {
		if !claim.Exists {
			continue
		}
		plan.Reason = fmt.Sprintf("the cluster is restored from its store; claim %s and its volume are discarded", claim.Name)
		if claim.Deleting {
			plan.Lively = true // nobody uses it any more
			plan.WaitsFor = "claim " + claim.Name + " to be gone"
		} else {
			plan.Step = &Step{Kind: StepDiscardClaim, Object: claim.Name, UID: claim.UID}
		}

		return plan
	}

	return plan.thenStart(etcd, o)
}

// thenStart empties the leases, and renders the first member when all of them are empty.
func (p Plan) thenStart(etcd *druidv1alpha1.Etcd, o Observation) Plan {
	for _, lease := range o.MemberLeases {
		if lease.Holder != "" {
			p.Reason = fmt.Sprintf("the cluster is restored from its store; lease %s still tells of a member", lease.Name)
			p.Step = &Step{Kind: StepEmptyLease, Object: lease.Name, UID: lease.UID}

			return p
		}
	}
	p.Reason = "nothing is left of the cluster; its first member restores from the store"
	if _, asked := etcd.Annotations[druidv1alpha1.RestoreAnnotation]; asked {
		p.WaitsFor = "the annotation " + druidv1alpha1.RestoreAnnotation + " to be taken"

		return p
	}
	p.Replicas, p.ClusterSize, p.Restore = 1, 1, RestoreStart
	p.WaitsFor = podToServe(etcd, nil)

	return p
}

// joining remembers, with the plan for a cluster whose first member was restored, that the restore goes on until nothing is left to
// do.
func (p Plan) joining(o Observation) Plan {
	phase := RestorePhase(o.ManagedResource.Restore)
	if (phase == RestoreStart || phase == RestoreJoin) && p.Stage != StageDone {
		p.Restore = RestoreJoin
	}

	return p
}

// planRestoredMember waits for the first member. When it serves the restore is over, and others may join. Until then nothing on its
// volume is taken for data by anybody but its sidecar, which restores beside the data directory and renames when it is done.
func planRestoredMember(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) (Plan, bool) {
	pod := o.PodFor(0)
	if pod != nil && pod.Ready && !pod.Deleting {
		return Plan{}, false
	}
	plan := Plan{Stage: StageRestore, Render: true, Replicas: 1, ClusterSize: 1, Restore: RestoreStart}
	if pod != nil && !pod.Deleting && o.StatefulSet.Exists && pod.IsOutdated(o.StatefulSet) {
		return replaceSinglePod(etcd, o, plan, now), true
	}
	plan.Reason = "the first member restores from the store" + newestSnapshots(o)
	plan.WaitsFor = podToServe(etcd, pod)

	return plan, true
}
