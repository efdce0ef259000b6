// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// promote promotes a learner as soon as it has caught up. Its sidecar would do so half a minute later: before its first attempt the sidecar
// requests the member list from the learner until a timeout, and learners refuse that.
func (v view) promote(p plan.Plan) (plan.Plan, bool) {
	if !v.isMemberListKnown() || v.healthy < v.size {
		return p, false
	}
	var leader *etcdcluster.EndpointStatus
	for _, member := range v.members {
		if member.Endpoint != nil && member.Endpoint.IsLeader() {
			leader = member.Endpoint
		}
	}
	for _, member := range v.members {
		if leader == nil || !isRunningLearner(member) || !hasCaughtUp(*member.Endpoint, *leader) {
			continue
		}
		p.Stage = plan.StagePromote
		p.Reason = fmt.Sprintf("%s; %s has caught up, and its promotion results in %d of %d healthy: allowed", v.quorumStatus(), member.Name, v.healthy+1, v.size+1)
		p.Step = plan.PromoteMember{Meta: plan.Meta{Object: member.Pod.Name, UID: member.Pod.UID}, Member: member.Endpoint.MemberID}

		return p, true
	}

	return p, false
}

// isRunningLearner is true for a learner that responds, and that is a learner in the member list.
func isRunningLearner(m etcdcluster.Member) bool {
	return m.Pod != nil && !m.Pod.Deleting && m.Endpoint != nil && m.Endpoint.Reachable && m.Endpoint.Learner &&
		m.Listed != nil && m.Listed.Learner && m.Listed.ID == m.Endpoint.MemberID
}

// hasCaughtUp is true if a learner has applied nine tenths of the log of the leader. etcd promotes it then.
func hasCaughtUp(learner, leader etcdcluster.EndpointStatus) bool {
	return learner.RaftAppliedIndex > 0 && learner.RaftAppliedIndex >= leader.RaftIndex/10*9
}

// startPendingLearner starts the next member if it has joined already and other members are missing in the member list, for example in a
// cluster that hibernated while it was being scaled up: a cluster takes one learner at a time, and this one is promoted only if it runs.
func (v view) startPendingLearner(p plan.Plan) (plan.Plan, bool) {
	next := v.next()
	hasJoined := slices.ContainsFunc(v.o.Etcd.MemberList, func(m etcdcluster.ListedMember) bool { return m.Learner && v.isListedAs(next, m) })
	isKeptOut := slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return m.Listed == nil })
	if !v.isMemberListKnown() || !v.isScalingUp() || !hasJoined || !isKeptOut {
		return p, false
	}
	p.Stage = plan.StageScaleUp
	p.Reason = fmt.Sprintf("%s; %s has already joined as a learner, and no other member can join before its promotion", v.quorumStatus(), next.Name)
	p.ScaleUp = &plan.Size{Replicas: p.Replicas + 1, ClusterSize: v.etcd.Spec.Replicas}

	return p, true
}

// next is the member that joins next.
func (v view) next() etcdcluster.Member {
	return etcdcluster.Member{Ordinal: len(v.members), Name: helper.MemberName(v.etcd, len(v.members))}
}

// isListedAs is true if the entry of the member list is that of the member. A member that has joined and never ran has no name yet, only
// its peer URLs.
func (v view) isListedAs(m etcdcluster.Member, listed etcdcluster.ListedMember) bool {
	return listed.Name == m.Name || listed.Name == "" && listed.HasPeerHost(etcdcluster.PeerHost(v.etcd, m.Ordinal))
}

// waitForMembers waits for members that have not recovered.
func (v view) waitForMembers(p plan.Plan) (plan.Plan, bool) {
	for _, member := range v.members {
		awaited := v.awaited(member)
		if v.isScalingUp() && v.isReachable() {
			awaited = v.awaitedToScaleUp(member)
		}
		if awaited == "" {
			continue
		}
		p.Stage, p.WaitsFor = plan.StageWaitForMembers, awaited
		p.Reason = v.quorumStatus() + "; the members start, no action needed"
		if v.isScalingUp() && v.hasScaleUpBegun() {
			p.Stage = plan.StageScaleUp
			p.Reason = fmt.Sprintf("%s; %d of %d members have been added", v.quorumStatus(), len(v.members), v.etcd.Spec.Replicas)
		}

		return p, true
	}
	if !v.isMemberListKnown() {
		p.Stage, p.WaitsFor = plan.StageWaitForMembers, "the member list: "+v.o.Etcd.MemberListError
		p.Reason = v.quorumStatus() + "; the operator does not continue without the member list"

		return p, true
	}

	return p, false
}

// isReachable is true if a pod is ready. Members that join reach the others by the Service, which has only ready endpoints.
func (v view) isReachable() bool {
	return slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return m.Pod != nil && m.Pod.Ready && !m.Pod.Deleting })
}

// isScalingUp is true while members are missing that the spec requests.
func (v view) isScalingUp() bool { return len(v.members) < int(v.etcd.Spec.Replicas) }

// hasScaleUpBegun is true from the start of the second member until the last one is started. The number of voting members may be even,
// which tolerates no further loss.
func (v view) hasScaleUpBegun() bool { return int(v.o.State.Size) > len(v.members) }

// scaleUp adds the next member if all others are healthy voting members. If no member is missing, the plan is done.
func (v view) scaleUp(p plan.Plan) plan.Plan {
	p.Stage = plan.StageDone
	p.Reason = v.quorumStatus() + ", and all members run the latest rendered manifests"
	if !v.isScalingUp() {
		return p
	}
	p.Stage = plan.StageScaleUp
	next := v.next()
	for _, listed := range v.o.Etcd.MemberList {
		if listed.Learner && !v.isListedAs(next, listed) { // the next one may have been added before
			p.Reason = v.quorumStatus() + "; one learner joins at a time"
			p.WaitsFor = "learner " + etcdcluster.FormatID(listed.ID) + " to be promoted or to be removed"

			return p
		}
	}
	p.Reason = fmt.Sprintf("%s; %s joins as a learner, which leaves the quorum at %d", v.quorumStatus(), next.Name, etcdcluster.QuorumOf(v.size))
	if len(v.members) == 1 && p.ClusterSize == 1 {
		p.Reason += fmt.Sprintf("; %s restarts once, after the last has joined", v.members[0].Name)
	}
	p.ScaleUp = &plan.Size{Replicas: p.Replicas + 1, ClusterSize: v.etcd.Spec.Replicas}

	return p
}

// firstMemberTimeout is how long the first member may take to start with the size of the spec. After that it is rendered with size 1
// again, as long as no other member was started: it may have lost its data.
const firstMemberTimeout = 5 * time.Minute

// clusterSize is the number of members to render in initial-cluster. The first member is rendered with that of the spec as soon as it is
// healthy.
func (v view) clusterSize() int32 {
	count := int32(len(v.members)) // #nosec G115 -- a handful of members
	last := max(v.o.State.Size, count)
	if last > 1 || v.restartsLast() && !v.o.StatefulSet.HasPreStopHook {
		return last
	}
	if pod := v.members[0].Pod; pod != nil && !pod.Deleting && !pod.HasPreStopHook && !v.members[0].IsHealthy() {
		return 1 // its sidecar may be restoring, which one with a larger size would not do
	}
	if v.members[0].IsHealthy() || v.o.StatefulSet.HasPreStopHook && !v.hasFirstTimedOut() {
		return v.etcd.Spec.Replicas
	}

	return 1
}

// SizeToPersist returns the size to persist with the rendering of a plan. The operator starts that many members later. A larger size that
// is rendered for the first member only does not count before a second member is started: until then the first one may be restored as a
// single member. The Observation is the one that the plan was made for.
func SizeToPersist(p plan.Plan, o etcdcluster.Observation) int32 {
	if p.Replicas == 1 {
		return min(p.ClusterSize, max(o.State.Size, 1))
	}

	return p.ClusterSize
}

// ReturnsToOne is true for a plan that renders size 1 again, because the first member of a multi-member cluster did not become ready with
// the size of the spec. The Observation is the one that the plan was made for.
func ReturnsToOne(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	return etcd.Spec.Replicas > 1 && p.Replicas == 1 && p.ClusterSize == 1 && o.StatefulSet.HasPreStopHook
}

// joinsExisting is true where initial-cluster lists the members of an existing cluster too: no sidecar is rendered with size 1 then.
func (v view) joinsExisting() bool { return v.etcd.Spec.Etcd.BootstrapWithExistingCluster != nil }

// restartsLast is true where the first member restarts after the last one has joined: no sidecar of it can restore a store.
func (v view) restartsLast() bool {
	return v.joinsExisting() || !helper.IsStoreConfigured(v.etcd) && !v.members[0].UsesStore()
}

// hasFirstTimedOut is true if the pod of the first member runs the latest rendered manifests and has not been ready for too long. A pod on
// an unreachable node may be ready.
func (v view) hasFirstTimedOut() bool {
	pod := v.members[0].Pod

	return pod != nil && !pod.Deleting && !pod.Ready && !pod.ContainersReady && !v.members[0].IsOutdated(v.o.StatefulSet) &&
		v.now.Sub(pod.ReadinessSince()) >= firstMemberTimeout
}
