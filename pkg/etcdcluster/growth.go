// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
)

// promote gives a learner its vote as soon as it has caught up. Its sidecar would do so too, half a minute later: before its
// first attempt it asks the learner for the list of members until it gives up, and learners refuse that.
func (v view) promote(plan Plan) (Plan, bool) {
	if !v.isSeen() || v.healthy < v.size {
		return plan, false
	}
	var leader *MemberAnswer
	for _, member := range v.members {
		if member.Answer != nil && member.Answer.Leads() {
			leader = member.Answer
		}
	}
	for _, member := range v.members {
		if leader == nil || !member.isRunningLearner() || !hasCaughtUp(*member.Answer, *leader) {
			continue
		}
		plan.Stage = StagePromote
		plan.Reason = fmt.Sprintf("%s; %s has caught up, and with its vote %d of %d are: allowed", v.arithmetic(), member.Name, v.healthy+1, v.size+1)
		plan.Step = &Step{Kind: StepPromoteMember, Object: member.Pod.Name, UID: member.Pod.UID, To: member.Answer.MemberID}

		return plan, true
	}

	return plan, false
}

// isRunningLearner is true for a learner that answers, and that the cluster knows as one.
func (m Member) isRunningLearner() bool {
	return m.Pod != nil && !m.Pod.Deleting && m.Answer != nil && m.Answer.Reachable && m.Answer.Learner &&
		m.Listed != nil && m.Listed.Learner && m.Listed.ID == m.Answer.MemberID
}

// hasCaughtUp is true when a learner has applied nine tenths of what the leader has, which is when etcd lets it vote.
func hasCaughtUp(learner, leader MemberAnswer) bool {
	return learner.RaftAppliedIndex > 0 && learner.RaftAppliedIndex >= leader.RaftIndex/10*9
}

// makeRoom runs the next member where it has joined already and others have lost their place, such as in a cluster that hibernated while
// it grew: a cluster takes one learner at a time, and this one gets its vote only when it runs.
func (v view) makeRoom(plan Plan) (Plan, bool) {
	next := v.next()
	hasJoined := slices.ContainsFunc(v.o.Etcd.MemberList, func(m ListedMember) bool { return m.Learner && v.isListedAs(next, m) })
	isKeptOut := slices.ContainsFunc(v.members, func(m Member) bool { return m.Listed == nil })
	if !v.isSeen() || !v.isGrowing() || !hasJoined || !isKeptOut {
		return plan, false
	}
	plan.Stage = StageGrow
	plan.Reason = fmt.Sprintf("%s; %s has joined as a learner before, and keeps others out that have to join again until it has its vote", v.arithmetic(), next.Name)
	plan.Growth = &Growth{Replicas: plan.Replicas + 1, ClusterSize: v.etcd.Spec.Replicas}

	return plan, true
}

// next is the member that joins next.
func (v view) next() Member {
	return Member{Ordinal: len(v.members), Name: helper.MemberName(v.etcd, len(v.members))}
}

// isListedAs is true where the cluster lists the member so. One that has joined and never ran has no name yet, but its peer URLs.
func (v view) isListedAs(m Member, listed ListedMember) bool {
	return listed.Name == m.Name || listed.Name == "" && listed.isAt(peerHost(v.etcd, m.Ordinal))
}

// settle waits for members that are not back.
func (v view) settle(plan Plan) (Plan, bool) {
	for _, member := range v.members {
		awaited := v.awaited(member)
		if v.isGrowing() && v.isReachable() {
			awaited = v.awaitedToGrow(member)
		}
		if awaited == "" {
			continue
		}
		plan.Stage, plan.WaitsFor = StageSettle, awaited
		plan.Reason = v.arithmetic() + "; the members come up by themselves"
		if v.isGrowing() && v.hasBegunToGrow() {
			plan.Stage = StageGrow
			plan.Reason = fmt.Sprintf("%s; %d of %d members have been told to join", v.arithmetic(), len(v.members), v.etcd.Spec.Replicas)
		}

		return plan, true
	}
	if !v.isSeen() {
		plan.Stage, plan.WaitsFor = StageSettle, "the list of members: "+v.o.Etcd.MemberListError
		plan.Reason = v.arithmetic() + "; nothing goes on without knowing the members"

		return plan, true
	}

	return plan, false
}

// isReachable is true when a pod is behind the Service, by which members that join find the others.
func (v view) isReachable() bool {
	return slices.ContainsFunc(v.members, func(m Member) bool { return m.Pod != nil && m.Pod.Ready && !m.Pod.Deleting })
}

// isGrowing is true while members are missing that the spec asks for.
func (v view) isGrowing() bool { return len(v.members) < int(v.etcd.Spec.Replicas) }

// hasBegunToGrow is true from when the second member is started until the last one is: the number of voters may be even, which
// spares none.
func (v view) hasBegunToGrow() bool { return int(v.o.ManagedResource.Size) > len(v.members) }

// grow lets the next member join when all others are voters and serve. Without one missing, all is done.
func (v view) grow(plan Plan) Plan {
	plan.Stage = StageDone
	plan.Reason = v.arithmetic() + ", and all members run the newest rendering"
	if !v.isGrowing() {
		return plan
	}
	plan.Stage = StageGrow
	next := v.next()
	for _, listed := range v.o.Etcd.MemberList {
		if listed.Learner && !v.isListedAs(next, listed) { // the next one may have been added before
			plan.Reason = v.arithmetic() + "; one joins at a time"
			plan.WaitsFor = "learner " + FormatID(listed.ID) + " to get its vote or to be removed"

			return plan
		}
	}
	plan.Reason = fmt.Sprintf("%s; %s joins as a learner, which leaves the quorum at %d", v.arithmetic(), next.Name, QuorumOf(v.size))
	if len(v.members) == 1 && plan.ClusterSize == 1 {
		plan.Reason += fmt.Sprintf("; %s restarts once, after the last has joined", v.members[0].Name)
	}
	plan.Growth = &Growth{Replicas: plan.Replicas + 1, ClusterSize: v.etcd.Spec.Replicas}

	return plan
}
