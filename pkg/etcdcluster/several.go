// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// startTime is how long members may take to start before their silence is called a lost quorum.
const startTime = 2 * time.Minute

// unreadyTime is how long a running pod has to be not ready, while nobody serves, before it may be replaced.
const unreadyTime = time.Minute

// planSeveral plans for an Etcd that asks for several members. As many members are planned for as were rendered last: a
// cluster never shrinks, and grows by one member at a time.
func planSeveral(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) Plan {
	count := renderedReplicas(o)
	if count == 0 || !o.StatefulSet.Exists && len(o.Pods) == 0 {
		return planStart(etcd, o)
	}
	v := viewOf(etcd, o, count, now)
	plan := Plan{Render: true, Replicas: count, ClusterSize: v.clusterSize(), Lively: v.isLively()}
	if !o.StatefulSet.Exists {
		plan.Stage = StageRecreateStatefulSet
		plan.Reason = fmt.Sprintf("the StatefulSet was taken from under %d pods and has to come back", len(o.Pods))
		plan.WaitsFor = "the StatefulSet to be there"

		return plan
	}
	held, isHeld := v.holdPeers(plan)
	for _, decide := range []func(Plan) (Plan, bool){v.holdStill, v.withoutQuorum, v.repair, v.replaceAlone, v.promote} {
		if decided, is := decide(plan); is {
			decided.Render = decided.Render && !isHeld

			return decided
		}
	}
	if isHeld {
		return held
	}
	for _, decide := range []func(Plan) (Plan, bool){v.correctURLs, v.makeRoom, v.replace, v.settle} {
		if decided, is := decide(plan); is {
			return decided
		}
	}

	return v.growVolumes(v.grow(plan))
}

// renderedReplicas is the number of pods that were rendered last. Of a cluster that is adopted it is what runs.
func renderedReplicas(o Observation) int32 {
	switch {
	case o.ManagedResource.Replicas != nil:
		return *o.ManagedResource.Replicas
	case o.StatefulSet.Exists:
		return o.StatefulSet.SpecReplicas
	case len(o.Pods) > 0:
		return int32(o.Pods[len(o.Pods)-1].Ordinal) + 1 // #nosec G115 -- the ordinal of a member
	default:
		return 0
	}
}

// planStart starts what has data, all of it at once since members find each other by it, or else the first member alone:
// several that start from nothing would each believe to have been left out of a cluster that holds snapshots.
func planStart(etcd *druidv1alpha1.Etcd, o Observation) Plan {
	known, told := knownMembers(etcd, o)
	size := max(o.ManagedResource.Size, int32(known), 1) // #nosec G115 -- a handful of members
	data := 0
	for _, claim := range o.Claims {
		if claim.Exists && !claim.Lost && claim.Ordinal < known {
			data++
		}
	}
	switch {
	case known == 0 && o.ManagedResource.Size <= 1:
		return Plan{
			Stage: StageCreate, Render: true, Replicas: 1, ClusterSize: 1,
			Reason:   fmt.Sprintf("0 of %d members exist; the first %s, and the others join it one at a time", etcd.Spec.Replicas, startOf(etcd)),
			WaitsFor: "member " + helper.MemberName(etcd, 0) + " to serve",
		}
	case data == 0:
		return Plan{
			Stage:    StageQuorumLost,
			Reason:   fmt.Sprintf("no volume is left of a cluster of %d members; nothing is started, since none could join another", size),
			WaitsFor: recovery(etcd, o),
		}
	case !told && !IsQuorate(data, known):
		// Those without data would be enough to form a cluster of their own, for which the sidecars of the others discard theirs.
		return Plan{
			Stage:    StageQuorumLost,
			Reason:   fmt.Sprintf("%d claims with data are left of a cluster of %d members, fewer than the quorum of %d, and no lease tells who they are; nothing is started", data, size, QuorumOf(known)),
			WaitsFor: fmt.Sprintf("the claims of the others, or those of all members to be deleted if the data of %s is worth nothing", strings.Join(o.claimsWithData(), " and ")),
		}
	default:
		return Plan{
			Stage: StageWake, Render: true, Replicas: int32(known), ClusterSize: size, // #nosec G115 -- a handful of members
			Reason:   fmt.Sprintf("0 of %d members run; all that have data are started together", known),
			WaitsFor: "a quorum of them to serve",
		}
	}
}

func startOf(etcd *druidv1alpha1.Etcd) string {
	if etcd.Spec.Etcd.BootstrapWithExistingCluster != nil {
		return "joins the existing cluster alone"
	}

	return "is created alone"
}

// knownMembers is how many members of the cluster have ever run, as their leases tell or, where no lease does, their claims: any
// of them may have been lost, the first as well. It also returns whether leases told it.
func knownMembers(etcd *druidv1alpha1.Etcd, o Observation) (int, bool) {
	known := 0
	for ordinal := range int(etcd.Spec.Replicas) {
		for _, lease := range o.MemberLeases {
			isOurs := lease.OwnerUID == "" || lease.OwnerUID == etcd.UID
			if lease.Name == helper.MemberName(etcd, ordinal) && lease.Holder != "" && isOurs {
				known = ordinal + 1
			}
		}
	}
	if known > 0 {
		return known, true
	}
	for _, claim := range o.Claims {
		if claim.Exists {
			known = max(known, claim.Ordinal+1)
		}
	}

	return known, false
}

// claimsWithData are the names of the claims whose volumes are not lost.
func (o Observation) claimsWithData() []string {
	var names []string
	for _, claim := range o.Claims {
		if claim.Exists && !claim.Lost {
			names = append(names, claim.Name)
		}
	}

	return names
}

// holdStill stops before members that do not belong together.
func (v view) holdStill(plan Plan) (Plan, bool) {
	clusters := map[uint64][]string{}
	for _, member := range v.members {
		if member.Answer != nil && member.Answer.ClusterID != 0 {
			clusters[member.Answer.ClusterID] = append(clusters[member.Answer.ClusterID], member.Name)
		}
	}
	if len(clusters) < 2 {
		return plan, false
	}
	var sentences []string
	for id, names := range clusters {
		sentences = append(sentences, strings.Join(names, " and ")+" of cluster "+FormatID(id))
	}
	slices.Sort(sentences)
	plan.Stage, plan.Render = StageHold, false
	plan.Reason = "the members are not one cluster, so that nothing of it is touched"
	plan.WaitsFor = "them to be one: " + strings.Join(sentences, ", ")

	return plan, true
}

// withoutQuorum decides where too few members serve: nothing is attempted, but that pods which cannot serve are made from
// the newest template.
func (v view) withoutQuorum(plan Plan) (Plan, bool) {
	if v.isQuorate() {
		return plan, false
	}
	if v.anyServes() {
		plan.Stage = StageSettle
		plan.Reason = v.arithmetic() + ", but a member serves, which takes a quorum: members are hidden from sight, and nothing is touched"
		plan.WaitsFor = v.missing()

		return plan, true
	}
	if member := v.replaceable(v.isDead); member != nil {
		plan.Stage = StageReplacePod
		plan.Reason = fmt.Sprintf("%s; nobody serves, so that replacing %s takes nothing away", v.arithmetic(), member.Pod.Name)
		if waits := plan.heldByStore(v.etcd, v.o, *member.Pod, v.now); waits != nil && len(v.members) == 1 {
			return *waits, true
		}
		plan.Step = member.Pod.toBeDeleted()

		return plan, true
	}

	if decided, is := v.lostForGood(plan); is {
		return decided, true
	}

	return v.quorumLost(plan), true
}

func (v view) quorumLost(plan Plan) Plan {
	plan.Stage = StageSettle
	plan.Reason = v.arithmetic() + "; the members start"
	plan.WaitsFor = v.missing()
	unpulled := v.unpulled()
	if unpulled != "" && v.neverFormed() {
		plan.Reason = v.arithmetic() + "; the cluster never formed: " + unpulled

		return plan
	}
	for _, member := range v.members {
		if member.Pod == nil || v.now.Sub(member.Pod.CreationTime) < startTime {
			return plan
		}
	}
	plan.Stage = StageQuorumLost
	plan.Reason = fmt.Sprintf("%s, fewer than the quorum of %d; nothing is attempted", v.arithmetic(), QuorumOf(v.size))
	if unpulled != "" {
		plan.Reason += ": " + unpulled
	}

	return plan
}

// unpulled names the first image that cannot be pulled, and the way out. Empty: all can.
func (v view) unpulled() string {
	for _, member := range v.members {
		if member.Pod == nil {
			continue
		}
		if sentence := member.Pod.unpulled(); sentence != "" {
			return sentence
		}
	}

	return ""
}

// neverFormed is true while no member has ever told its lease that it is one.
func (v view) neverFormed() bool {
	return !slices.ContainsFunc(v.members, func(m Member) bool { return m.Lease != nil && m.Lease.Holder != "" })
}

// lostForGood stops where so many volumes are lost for good that the others are no quorum, whoever comes back. While the
// cluster grows nobody knows which of the members had a vote.
func (v view) lostForGood(plan Plan) (Plan, bool) {
	var lost, left []string
	for _, member := range v.members {
		if loss := v.o.lossOf(member.Ordinal); loss != "" {
			lost = append(lost, loss)
		} else {
			left = append(left, member.Name)
		}
	}
	if len(lost) == 0 || v.hasBegunToGrow() || IsQuorate(len(left), v.size) {
		return plan, false
	}
	survivors := "no member"
	if len(left) > 0 {
		survivors = "the data of " + strings.Join(left, " and ")
	}
	plan.Stage = StageQuorumLost
	plan.Reason = fmt.Sprintf("%s, and the quorum of %d is lost for good: %s; nothing is attempted", v.arithmetic(), QuorumOf(v.size), strings.Join(lost, "; "))
	plan.WaitsFor = fmt.Sprintf("what is left to be saved by hand (%s), or %s", survivors, recovery(v.etcd, v.o))

	return plan, true
}

func newestSnapshots(o Observation) string {
	tell := func(lease Lease) string {
		if lease.RenewTime.IsZero() {
			return "none"
		}

		return lease.RenewTime.UTC().Format(time.RFC3339)
	}

	return fmt.Sprintf(" (newest full snapshot: %s, newest delta snapshot: %s)", tell(o.FullSnapshotLease), tell(o.DeltaSnapshotLease))
}
