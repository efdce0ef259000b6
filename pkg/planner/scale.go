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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// promoteLearner promotes a learner as soon as it has caught up. Its sidecar would do so half a minute later. Before its first attempt the
// sidecar requests the member list from the learner until a timeout, and learners refuse that.
func promoteLearner(v view, p plan.Plan) (plan.Plan, bool) {
	if !v.isMemberListKnown() || v.healthy < v.size {
		return p, false
	}
	leader := v.leader()
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

// replaceLearner replaces the pod of a member that cannot join, because its etcd may have formed a separate cluster. The sidecar of a joining
// member adds a learner, and then requests the member list for the configuration of etcd. If the cluster does not respond, for example
// because its only voting member restarts, the sidecar writes the configuration of a new cluster. It also does so if the cluster does not
// respond for a minute before it adds the learner. One member joins at a time, so that the separate cluster never has a quorum. The sidecar
// of the new pod deletes the separate data, and the member joins.
func replaceLearner(v view, p plan.Plan) (plan.Plan, bool) {
	for _, member := range v.members {
		if deadline := joinDeadline(v, member); deadline.IsZero() || v.now.Before(deadline) {
			continue
		}
		p.Stage = plan.StageReplaceLearner
		p.Reason = fmt.Sprintf("%s; %s has not joined within %s: its etcd may have formed a separate cluster, and its pod is replaced",
			v.quorumStatus(), member.Name, etcdcluster.MemberStartTimeout)
		p.Step = deletePod(*member.Pod)

		return p, true
	}

	return p, false
}

// joinDeadline returns when a member that has not joined counts as one that has formed a separate cluster. The time begins when its containers
// and the other members are ready: a sidecar that has reached the cluster adds its learner within that time. A learner that the leader has
// contacted must stay, because a member that lost entries of its log does not start. Zero: the member has joined, or something else
// prevents it.
func joinDeadline(v view, m etcdcluster.Member) time.Time {
	if !v.isMemberListKnown() || v.joined == 0 && v.readyPods() == 0 || !isEtcdStopped(m) || !mayJoin(v, m) {
		return time.Time{}
	}
	etcd, sidecar := m.Pod.RunsSince(etcdcluster.ContainerEtcd), m.Pod.RunsSince(etcdcluster.ContainerBackupRestore)
	if etcd.IsZero() || sidecar.IsZero() {
		return time.Time{}
	}
	since := etcdcluster.Later(etcd, sidecar)
	for _, other := range v.members {
		if other.IsHealthy() && other.Pod != nil {
			since = etcdcluster.Later(since, other.Pod.ReadinessSince())
		}
	}

	return since.Add(etcdcluster.MemberStartTimeout)
}

// maxTransferTime is how long a learner may wait for its first data before the leader stays although the data does not arrive.
const maxTransferTime = 5 * etcdcluster.MemberStartTimeout

// moveLeaderOfLearner transfers the leadership if a learner that the leader has contacted does not get its first data. The leader may send it
// over a connection to an earlier pod of the member, whose node has failed. etcd reuses connections by host name, and a raft snapshot has no
// timeout. TCP gives up after 15 minutes. The next leader uses other connections. A transfer that is only slow starts again. The leadership
// is therefore transferred once for each recorded term, and not after maxTransferTime.
func moveLeaderOfLearner(v view, p plan.Plan) (plan.Plan, bool) {
	recorded := v.o.State.Evidence
	if !v.isMemberListKnown() || v.healthy < v.size || v.o.Defragmentation != "" || recorded == nil || recorded.Term == 0 {
		return p, false
	}
	isLeader := func(m etcdcluster.Member) bool { return m.IsHealthy() && m.Endpoint.IsLeader() }
	isCandidate := func(m etcdcluster.Member) bool {
		return mayLead(m) && !m.Endpoint.IsLeader() && m.Pod != nil && !m.Pod.Deleting
	}
	leader, next := slices.IndexFunc(v.members, isLeader), slices.IndexFunc(v.members, isCandidate)
	learner := slices.IndexFunc(v.members, func(m etcdcluster.Member) bool { return isAwaitingData(v, m) })
	if learner < 0 || leader < 0 || next < 0 || v.members[leader].Pod == nil || v.members[leader].Endpoint.RaftTerm != recorded.Term {
		return p, false
	}
	from, to := v.members[leader], v.members[next]
	p.Stage = plan.StageWaitForMembers
	p.Reason = fmt.Sprintf("%s; leader %s has sent no data to learner %s for %s, perhaps because the connection is to its previous pod; %s becomes the leader",
		v.quorumStatus(), from.Name, v.members[learner].Name, etcdcluster.MemberStartTimeout, to.Name)
	p.Step = plan.MoveLeader{Meta: plan.Meta{Object: from.Pod.Name, UID: from.Pod.UID}, To: to.ID(), ToName: to.Name}

	return p, true
}

// isAwaitingData is true for a learner that the leader has contacted, and whose etcd does not respond although it has run for a while. etcd
// responds when it has applied its first data.
func isAwaitingData(v view, m etcdcluster.Member) bool {
	if m.Listed == nil || !m.Listed.Learner || m.Listed.Name == "" || !isEtcdStopped(m) {
		return false
	}
	since := m.Pod.RunsSince(etcdcluster.ContainerEtcd)
	running := v.now.Sub(since)

	return !since.IsZero() && running >= etcdcluster.MemberStartTimeout && running < maxTransferTime
}

// mayJoin is true for a member that has never been part of the cluster, and that etcd allows to join. etcd adds a learner only if all voting
// members are healthy, and if there is no other learner. It publishes the name of a learner as soon as the leader has contacted it, before
// it has caught up. An existing claim of an earlier Etcd may have data of another cluster.
func mayJoin(v view, m etcdcluster.Member) bool {
	if v.joined == 0 && v.healthy < v.size {
		return false
	}
	if m.Listed != nil {
		return m.Listed.Learner && m.Listed.Name == "" && peers.IsRegisteredWith(m, peers.OwnURLs(v.etcd, m))
	}
	claim, recorded := v.o.ClaimFor(m.Ordinal), v.o.State.Evidence
	isNew := claim != nil && claim.Exists && !claim.CreationTime.Before(v.etcd.CreationTimestamp.Time)
	isLearnerListed := slices.ContainsFunc(v.o.Etcd.MemberList, func(listed etcdcluster.ListedMember) bool { return listed.Learner })
	hasVoted := m.Lease == nil || m.Lease.Holder != "" ||
		recorded != nil && slices.ContainsFunc(recorded.Voters, func(voter state.Voter) bool { return isMember(voter, m) })

	return isNew && !hasVoted && !isLearnerListed
}

// startListed starts the next member if it has joined already and other members are missing in the member list. It may have joined before a
// hibernation: etcd takes one learner at a time, and promotes it only if it runs. The data of two members may also be lost: etcd takes no learner
// while a voting member does not run.
func startListed(v view, p plan.Plan) (plan.Plan, bool) {
	next := v.nextMember()
	listed := slices.IndexFunc(v.o.Etcd.MemberList, func(m etcdcluster.ListedMember) bool { return isListedAs(v.etcd, next, m) })
	isKeptOut := slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return m.Listed == nil })
	if !v.isMemberListKnown() || !v.isScalingUp() || listed < 0 || !isKeptOut || int(p.Replicas) > len(v.members) { // it has a pod if members leave
		return p, false
	}
	p.Stage = plan.StageScaleUp
	p.Reason = fmt.Sprintf("%s; %s votes and does not run, and no other member can join before it starts", v.quorumStatus(), next.Name)
	if v.o.Etcd.MemberList[listed].Learner {
		p.Reason = fmt.Sprintf("%s; %s has already joined as a learner, and no other member can join before its promotion", v.quorumStatus(), next.Name)
	}
	p.ScaleUp = &plan.Size{Replicas: p.Replicas + 1, ClusterSize: v.etcd.Spec.Replicas}

	return p, true
}

// isListedAs is true if the entry of the member list is that of the member. A member that has joined and never ran has no name yet, only
// its peer URLs.
func isListedAs(etcd *druidv1alpha1.Etcd, m etcdcluster.Member, listed etcdcluster.ListedMember) bool {
	return listed.Name == m.Name || listed.Name == "" && listed.HasPeerHost(etcdcluster.PeerHost(etcd, m.Ordinal))
}

// scaleUp adds the next member if members are missing that the spec requests. It is the last rule: all others must be healthy voting
// members, because etcd takes one learner at a time.
func scaleUp(v view, p plan.Plan) (plan.Plan, bool) {
	if !v.isScalingUp() {
		return p, false
	}
	p.Stage = plan.StageScaleUp
	next := v.nextMember()
	for _, listed := range v.o.Etcd.MemberList {
		if listed.Learner && !isListedAs(v.etcd, next, listed) { // the next one may have been added before
			p.Reason = v.quorumStatus() + "; one learner joins at a time"
			p.WaitsFor = "learner " + etcdcluster.FormatID(listed.ID) + " to be promoted or to be removed"

			return p, true
		}
	}
	if awaited := awaitedData(v); awaited != "" {
		p.Reason = fmt.Sprintf("%s; %s joins after the comparison of the data", v.quorumStatus(), next.Name)
		p.WaitsFor = awaited

		return p, true
	}
	p.Reason = fmt.Sprintf("%s; %s joins as a learner, which leaves the quorum at %d", v.quorumStatus(), next.Name, etcdcluster.QuorumOf(v.size))
	if len(v.members) == 1 && p.ClusterSize == 1 {
		p.Reason += fmt.Sprintf("; %s restarts once, after the last has joined", v.members[0].Name)
	}
	p.ScaleUp = &plan.Size{Replicas: p.Replicas + 1, ClusterSize: v.etcd.Spec.Replicas}

	return p, true
}

// firstMemberTimeout is how long the first member may take to start with the size of the spec. After that it is rendered with size 1
// again, as long as no other member was started: it may have lost its data.
const firstMemberTimeout = 5 * time.Minute

// renderedSize is the number of members to render in initial-cluster. The first member is rendered with that of the spec as soon as it is
// healthy.
func renderedSize(v view) int32 {
	count := int32(len(v.members)) // #nosec G115 -- a handful of members
	last, first := max(v.o.State.Size, count), v.members[0]
	if last > 1 || restartsLast(v, first) && !v.o.StatefulSet.HasPreStopHook {
		return last
	}
	if pod := first.Pod; pod != nil && !pod.Deleting && !pod.HasPreStopHook && !first.IsHealthy() {
		return 1 // its sidecar may be restoring, which one with a larger size would not do
	}
	if first.IsHealthy() || v.o.StatefulSet.HasPreStopHook && !hasTimedOut(first, v.o.StatefulSet, v.now) {
		return v.etcd.Spec.Replicas
	}

	return 1
}

// SizeToPersist returns the size to persist with the rendering of a plan. The operator starts that many members later. A larger size that
// is rendered for the first member only does not count before a second member is started. Until then the first one may be restored as a
// single member. The Observation is the one that the plan was made for.
func SizeToPersist(p plan.Plan, o etcdcluster.Observation) int32 {
	if p.Replicas == 1 {
		return min(p.ClusterSize, max(o.State.Size, 1))
	}

	return p.ClusterSize
}

// ReturnsToOne is true for a plan that renders size 1 again. The first member of a multi-member cluster did not become ready with the
// size of the spec. The Observation is the one that the plan was made for.
func ReturnsToOne(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	return etcd.Spec.Replicas > 1 && p.Replicas == 1 && p.ClusterSize == 1 && p.PodSize == 0 && o.State.PodSize == 0 && o.StatefulSet.HasPreStopHook
}

// restartsLast is true where the first member restarts after the last one has joined: no sidecar of it can restore a store.
func restartsLast(v view, first etcdcluster.Member) bool {
	return joinsExisting(v.etcd, v.o) || !helper.IsStoreConfigured(v.etcd) && !first.UsesStore()
}

// hasTimedOut is true if the pod of the first member runs the latest rendered manifests and has not been ready for firstMemberTimeout. A
// pod on an unreachable node may be ready.
func hasTimedOut(first etcdcluster.Member, statefulSet etcdcluster.StatefulSet, now time.Time) bool {
	pod := first.Pod

	return pod != nil && !pod.Deleting && !pod.Ready && !pod.ContainersReady && !first.IsOutdated(statefulSet) &&
		now.Sub(pod.ReadinessSince()) >= firstMemberTimeout
}
