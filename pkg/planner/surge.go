// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// A surge replaces the only member of a cluster through a temporary second member, in the phases of state.SurgePhase:
//
//  1. Join: the configuration lists two members, and the StatefulSet has two replicas. The sidecar of the second one adds a learner, which is
//     promoted when it lacks at most maxSurgeLag entries of the log.
//  2. Replace: the client Service selects the temporary member. The leadership moves to it, and the first member is removed from etcd.
//  3. Discard: the claim and the pod of the first member are deleted.
//  4. Return: the first member joins again as a learner, with a new pod and a new volume, and is promoted.
//  5. End: the client Service selects the first member. The leadership moves to it, and the temporary member is removed from etcd.
//  6. CleanUp: the configuration lists one member again. The claim, the pod and the Lease of the temporary member are deleted.
//
// With two voting members the quorum is two. No pod is stopped then, except the pod of a first member whose etcd has stopped. Its sidecar was
// started in a cluster of one member, and would restore a second cluster from the store. Before the first promotion the surge can be aborted.

const (
	// maxSurgeLag is how many entries of the log a learner may lack before its promotion. With two voting members, etcd acknowledges no write until
	// both have it.
	maxSurgeLag = 500
	// surgeTimeout is how long the temporary member may take to vote.
	surgeTimeout = 10 * time.Minute
	// sidecarPromotionTime is how long etcd of a learner runs before its sidecar may promote it. The first attempt is about 25 seconds after the start.
	sidecarPromotionTime = 15 * time.Second
	// surgeRetryPeriod is the time after which an aborted surge is tried again with the same pod template.
	surgeRetryPeriod = 10 * time.Minute
)

// planSurge plans for a cluster of one member while a surge is in progress. Most newer generations wait for its end, see isAppliedInSurge.
func planSurge(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	v := viewOf(etcd, o, etcdcluster.SurgeSize, now).withoutRemoved()
	if isNewerThanSurge(etcd, o) && !isAppliedInSurge(v) {
		p := plan.Plan{
			Stage: plan.StageWaitForSurge, Reason: "the only member is being replaced through a temporary second member, because " + o.State.Surge.Cause,
			WaitsFor: "the surge to be complete",
		}
		if !isCompatibleWithSurge(etcd, o) {
			p.WaitsFor += ": spec.replicas, spec.etcd.version, ports and TLS do not change before. If it does not continue, set them back, and correct the cause"
		}

		return p
	}
	if len(o.Etcd.MemberList) == 0 && !votesTwice(v) {
		v.size = 1
	}
	p := plan.Plan{Stage: plan.StageSurge, Render: true, Replicas: etcdcluster.SurgeSize, ClusterSize: etcdcluster.SurgeSize, PodSize: 1, Surge: surgeToRecord(v), PollMembers: true}
	if p.Surge.Phase == state.SurgeCleanUp {
		p = withoutTemporary(p)
	}
	if decided, is := deleteInspection(v, p); is {
		return decided
	}
	if p.Surge.Phase == state.SurgeCleanUp {
		return cleanUpSurge(v, p)
	}
	if decided, is := firstDecision(v, p, haltOnClusterIDMismatch, restartStoppedFirst, withoutQuorum); is {
		return decided
	}
	if !v.isMemberListKnown() {
		p.Reason, p.WaitsFor = v.quorumStatus()+"; the surge does not continue without the member list", awaitedMemberList(o)

		return p
	}
	switch p.Surge.Phase {
	case state.SurgeJoin:
		return joinTemporary(v, p)
	case state.SurgeReplace:
		return replaceFirst(v, p)
	case state.SurgeDiscard:
		return discardFirst(v, p)
	case state.SurgeReturn:
		return returnFirst(v, p)
	default:
		return endSurge(v, p)
	}
}

// surgeToRecord returns the surge that is in progress. While no quorum is healthy, it is paused: the kubelet then restores the configuration. It contains
// when the manifests of a phase that removes a member were applied.
func surgeToRecord(v view) *state.Surge {
	surge := *v.o.State.Surge
	if surge.Phase == state.SurgeCleanUp {
		return &surge
	}
	if isPaused := !v.isQuorate() && surge.Phase != state.SurgeDiscard; surge.Paused != isPaused {
		surge.Paused, surge.Since, surge.ReadyAt = isPaused, v.now, time.Time{}
	} else if surge.ReadyAt.IsZero() && v.o.ManagedResource.IsApplied() && (surge.Phase == state.SurgeReplace || surge.Phase == state.SurgeEnd) {
		surge.ReadyAt = v.now
	}

	return &surge
}

// isNewerThanSurge is true for a generation that is newer than the one with which the surge is rendered, if that one can be rendered again.
func isNewerThanSurge(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	accepted := o.State.Accepted

	return accepted != nil && accepted.Spec != nil && etcd.Generation != accepted.Generation
}

// isOfSurge is true for the generation with which a surge in progress is rendered. It does not wait for missing Secrets: two voting members tolerate no
// failure, and the end of the surge needs at most one new pod. That pod waits for the Secrets. If an operation is requested, the Secrets would be read
// again for another rendering. The surge then continues with the last accepted generation.
func isOfSurge(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	accepted := o.State.Accepted

	return o.State.Surge.IsActive() && accepted != nil && accepted.Generation == etcd.Generation && !helper.IsReconcileRequested(etcd)
}

// isAppliedInSurge is true for a newer generation that does not wait for the end of the surge. Before the temporary member votes, a generation that is
// not compatible aborts the surge, and another one replaces the temporary member. Later, a generation may correct what prevents a member from starting.
func isAppliedInSurge(v view) bool {
	switch surge := v.o.State.Surge; {
	case surge.Phase == state.SurgeJoin && !votesTwice(v):
		return true
	case surge.Phase == state.SurgeReturn, surge.Phase == state.SurgeCleanUp, surge.Paused, !v.isQuorate():
		return isCompatibleWithSurge(v.etcd, v.o)
	default:
		return false
	}
}

// isCompatibleWithSurge is true if the generation requests a single member with the endpoints with which the surge is rendered. It may request the version
// that the accepted generation requests, which changes after the surge.
func isCompatibleWithSurge(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	before := &druidv1alpha1.Etcd{Spec: *o.State.Accepted.Spec}
	_, changesVersion := pendingChange(etcd, o)
	changesVersion = changesVersion && helper.EtcdVersion(etcd) != helper.EtcdVersion(before)

	return etcd.Spec.Replicas == 1 && helper.ManagesPods(etcd) && !changesVersion && endpointsOf(etcd) == endpointsOf(before)
}

// endpoints are the ports of a member for its clients, and whether there is TLS. The peer port stays during a surge.
type endpoints struct {
	client, backup                int32
	clientTLS, peerTLS, backupTLS bool
}

func endpointsOf(etcd *druidv1alpha1.Etcd) endpoints {
	isManaged := ptr.Deref(etcd.Spec.Etcd.EnableTLS, false)

	return endpoints{
		client: helper.ClientPort(etcd), backup: helper.BackupPort(etcd),
		clientTLS: isManaged || helper.ClientTLS(etcd) != nil, peerTLS: isManaged || helper.PeerTLS(etcd) != nil, backupTLS: isManaged || helper.BackupTLS(etcd) != nil,
	}
}

// withoutRemoved returns the view without the votes of members that were removed. Such a member may respond for a second.
func (v view) withoutRemoved() view {
	for _, member := range v.members {
		if len(v.o.Etcd.MemberList) > 0 && member.Listed == nil && member.IsHealthy() {
			v.healthy--
		}
	}

	return v
}

// isVoting is true for a healthy voting member in the member list.
func isVoting(m etcdcluster.Member) bool {
	return m.Listed != nil && !m.Listed.Learner && m.IsHealthy()
}

// isVotingUnready is true for a healthy voting member whose pod is not ready, for example because its sidecar does not start.
func isVotingUnready(m etcdcluster.Member) bool {
	return isVoting(m) && m.Pod != nil && !m.Pod.Ready && !m.Pod.Deleting
}

// votesTwice is true while both members may vote. Without a quorum there is no member list: then the temporary member itself, the phase, or the
// record of the voting members shows it.
func votesTwice(v view) bool {
	temporary := v.members[1]
	if len(v.o.Etcd.MemberList) > 0 {
		return v.size > 1
	}
	recorded := v.o.State.Evidence
	isRecorded := recorded != nil && slices.ContainsFunc(recorded.Voters, func(voter state.Voter) bool { return voter.Name == temporary.Name })

	return isRecorded || v.o.State.Surge.MayVote || v.o.State.Surge.Phase == state.SurgeReplace || temporary.Endpoint != nil && temporary.Endpoint.Reachable && !temporary.Endpoint.Learner
}

// isStartedAlone is true for the pod of the first member whose sidecar was started in a cluster of one member.
func isStartedAlone(pod etcdcluster.Pod, surge *state.Surge) bool {
	return pod.UID == surge.Pod && (surge.Phase != state.SurgeEnd || surge.Revision != "")
}

// awaitsOther is true for a pod in which etcd runs while two members may vote: it becomes healthy as soon as the other member does. Its sidecar was
// started in a cluster of one member.
func awaitsOther(v view, pod etcdcluster.Pod) bool {
	surge := v.o.State.Surge

	return surge.IsActive() && v.size > 1 && pod.IsRunning() && isStartedAlone(pod, surge)
}

// restartStoppedFirst deletes the pod of the first member if its etcd has stopped while two members vote. The sidecar was started in a cluster of
// one member. It compares the data with the store, and one of two voting members cannot start alone. After a minute it would restore a second
// cluster from the store. The sidecar of the next pod knows two members, and keeps the data.
func restartStoppedFirst(v view, p plan.Plan) (plan.Plan, bool) {
	first := v.members[0]
	pod := first.Pod
	if pod == nil || pod.Deleting || pod.Ready || !isStartedAlone(*pod, p.Surge) || first.IsHealthy() || !votesTwice(v) {
		return p, false
	}
	if pod.Restarts(etcdcluster.ContainerEtcd) == p.Surge.Restarts && pod.IsRunning() {
		return p, false
	}
	p.Reason = fmt.Sprintf("%s; etcd in pod %s has stopped while two members vote, and its sidecar was started with one: it would restore a second cluster from the store", v.quorumStatus(), pod.Name)
	p.Render = false // it waits for no rendering
	// The sidecar ignores the signal while it tries to start etcd, and a longer grace period would let it continue.
	p.Step = plan.DeletePod{Meta: plan.Meta{Object: pod.Name, UID: pod.UID}, GracePeriod: 1}

	return p, true
}

// joinTemporary lets the temporary member join, or aborts the surge.
func joinTemporary(v view, p plan.Plan) plan.Plan {
	temporary := v.members[1]
	if first := v.members[0]; first.IsHealthy() && first.Pod != nil && first.Pod.UID == p.Surge.Pod && !votesTwice(v) {
		p.Surge.Restarts = first.Pod.Restarts(etcdcluster.ContainerEtcd)
	}
	if isVoting(temporary) && isVoting(v.members[0]) {
		return nextPhase(v, p, state.SurgeReplace, fmt.Sprintf("%s votes, and %s is removed", temporary.Name, v.members[0].Name))
	}
	if failure, is := abortion(v, p); is {
		reason := "the cause of the surge has gone, and the temporary member is removed"
		if failure != "" {
			reason = "the surge is aborted, and the temporary member is removed: " + failure
		}
		p.Surge.Error, p.Surge.Revision = failure, v.o.StatefulSet.UpdateRevision

		return nextPhase(v, p, state.SurgeEnd, reason)
	}

	p.Surge.MayVote = isRunningLearner(temporary) && v.now.Sub(temporary.Pod.RunsSince(etcdcluster.ContainerEtcd)) >= sidecarPromotionTime

	return join(v, p, temporary)
}

// nextPhase records the next phase. Its rendering is applied before anything of it is done.
func nextPhase(v view, p plan.Plan, phase state.SurgePhase, reason string) plan.Plan {
	p.Surge.Phase, p.Surge.Since, p.Surge.ReadyAt = phase, v.now, time.Time{}
	p.Surge.MayVote = p.Surge.MayVote && (phase == state.SurgeReplace || phase == state.SurgeEnd)
	p.Reason, p.WaitsFor = v.quorumStatus()+"; "+reason, "this to be recorded"

	return p
}

// abortion is true if the surge ends before the temporary member votes. The text is the failure. Empty: the cause has gone.
func abortion(v view, p plan.Plan) (string, bool) {
	temporary, pod := v.members[1], v.o.PodFor(0)
	if temporary.Listed != nil && !temporary.Listed.Learner {
		return "", false
	}
	waited, missing := v.now.Sub(p.Surge.Since), etcdcluster.MissingSecrets(v.o)
	switch {
	case v.etcd.Spec.Replicas != 1, isNewerThanSurge(v.etcd, v.o) && !isCompatibleWithSurge(v.etcd, v.o):
		return "", true
	case v.o.StatefulSet.GenerationObserved() && pod != nil && !pod.Deleting && surgeCause(v.etcd, v.o, *pod, v.now) == "":
		return "", true
	case len(missing) > 0:
		return strings.Join(missing, "; "), true
	case waited >= etcdcluster.MemberStartTimeout && temporary.Pod != nil && (temporary.Pod.Unschedulable != "" || temporary.Pod.ImagePullError() != ""):
		return v.o.StartProblem(temporary.Ordinal), true
	case waited >= surgeTimeout:
		return fmt.Sprintf("the temporary member did not vote within %s: it waited for %s", surgeTimeout, awaitedOf(v, temporary)), true
	default:
		return "", false
	}
}

// join lets a member join as a learner, and promotes it.
func join(v view, p plan.Plan, joining etcdcluster.Member) plan.Plan {
	if joining.IsOutdated(v.o.StatefulSet) && (joining.Listed == nil || joining.Listed.Learner) {
		p.Reason = fmt.Sprintf("%s; the pod template has changed, and learner %s does not vote", v.quorumStatus(), joining.Name)
		p.Step = deletePod(*joining.Pod)

		return p
	}
	if decided, is := promoteSurgeLearner(v, p, joining); is {
		return decided
	}
	if decided, is := firstDecision(v, p, replaceLostVolumes, replaceUnprovisioned, replaceLearner); is {
		return decided
	}
	p.Reason = fmt.Sprintf("%s; %s joins as a learner, which leaves the quorum at %d", v.quorumStatus(), joining.Name, etcdcluster.QuorumOf(v.size))
	p.WaitsFor = awaitedOf(v, joining)
	if p.WaitsFor == "" {
		p.WaitsFor = "member " + joining.Name + " to vote"
	}
	p.WaitsFor = strings.Join(append([]string{p.WaitsFor}, etcdcluster.MissingSecrets(v.o)...), "; ")

	return p
}

// promoteSurgeLearner promotes a learner that lacks a few entries of the log. The step compares the logs again right before the promotion.
func promoteSurgeLearner(v view, p plan.Plan, m etcdcluster.Member) (plan.Plan, bool) {
	leader := v.leader()
	if leader == nil || v.healthy < v.size || !isRunningLearner(m) || v.o.Defragmentation != "" || m.Endpoint.RaftAppliedIndex == 0 {
		return p, false
	}
	lag := leader.RaftIndex - min(leader.RaftIndex, m.Endpoint.RaftAppliedIndex)
	if lag > maxSurgeLag {
		return p, false
	}
	p.Reason = fmt.Sprintf("%s; learner %s lacks %d entries of the log, and its promotion results in %d of %d healthy with a quorum of %d: allowed",
		v.quorumStatus(), m.Name, lag, v.healthy+1, v.size+1, etcdcluster.QuorumOf(v.size+1))
	p.Surge.MayVote = true // recorded before the step
	p.Step = plan.PromoteMember{Meta: plan.Meta{Object: m.Pod.Name, UID: m.Pod.UID}, Member: m.Endpoint.MemberID, MaxLag: maxSurgeLag}

	return p, true
}

// replaceFirst removes the first member from etcd.
func replaceFirst(v view, p plan.Plan) plan.Plan {
	first := v.members[0]
	if first.Listed != nil || isStale(first.Pod, surgeRendering(v, p)) {
		return removeSurgeMember(v, p, first, v.members[1])
	}

	return nextPhase(v, p, state.SurgeDiscard, first.Name+" was removed, and its volume and its pod are replaced")
}

// discardFirst deletes the claim and the pod of the first member, which was removed from etcd.
func discardFirst(v view, p plan.Plan) plan.Plan {
	first, claim := v.members[0], v.o.ClaimFor(0)
	hasClaim := claim != nil && claim.Exists && claim.UID == p.Surge.Claim
	isOldPod := first.Pod != nil && first.Pod.UID == p.Surge.Pod
	p.Reason = fmt.Sprintf("%s; %s was removed, and its volume and its pod are replaced", v.quorumStatus(), first.Name)
	switch {
	case first.Listed != nil:
		p.Step = removeListed(v, *first.Listed)
	case hasClaim && !claim.Deleting:
		p.Step = plan.DeleteClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}}
	case (hasClaim || isOldPod) && first.Pod != nil && !first.Pod.Deleting:
		p.Step = plan.DeletePod{Meta: plan.Meta{Object: first.Pod.Name, UID: first.Pod.UID}}
	case hasClaim:
		p.WaitsFor = "claim " + claim.Name + " to be gone"
		if first.Pod != nil {
			p.WaitsFor += outOfServiceHint(*first.Pod)
		}
	case isOldPod:
		p.WaitsFor = "pod " + first.Pod.Name + " to be gone" + outOfServiceHint(*first.Pod)
	default:
		return nextPhase(v, p, state.SurgeReturn, first.Name+" joins again with a new volume")
	}

	return p
}

// returnFirst lets the first member join again.
func returnFirst(v view, p plan.Plan) plan.Plan {
	first, temporary := v.members[0], v.members[1]
	if isVoting(first) && isVoting(temporary) && first.Pod != nil && first.Pod.Ready {
		p.Surge.Pod, p.Surge.Template = first.Pod.UID, ""
		if !first.IsOutdated(v.o.StatefulSet) {
			p.Surge.Template = v.o.StatefulSet.Template
		}

		return nextPhase(v, p, state.SurgeEnd, fmt.Sprintf("%s votes again, and %s is removed", first.Name, temporary.Name))
	}

	return join(v, p, first)
}

// removeSurgeMember removes one of two members from etcd. It does not lead, and clients of the Service use the other one.
func removeSurgeMember(v view, p plan.Plan, leaving, staying etcdcluster.Member) plan.Plan {
	p.Reason = fmt.Sprintf("%s; %s is removed from etcd", v.quorumStatus(), leaving.Name)
	rendering := surgeRendering(v, p)
	switch pod := leaving.Pod; {
	case !isVoting(staying):
		p.WaitsFor = "member " + staying.Name + " to be healthy"
	case isStale(pod, rendering):
		p.Reason += "; the kubelet updates its configuration, with which its sidecar adds no learner"
		p.Step = plan.RefreshPod{Meta: plan.Meta{Object: pod.Name, UID: pod.UID}, Rendering: rendering}
	case leaving.Listed.Learner:
		p.Step = removeListed(v, *leaving.Listed)
	case leaving.Endpoint != nil && leaving.Endpoint.IsLeader() && pod != nil:
		p.Reason += " after it has transferred the leadership"
		p.Step = plan.MoveLeader{Meta: plan.Meta{Object: pod.Name, UID: pod.UID}, To: staying.ID(), ToName: staying.Name}
	case v.leader() == nil:
		p.WaitsFor = "a leader"
	case p.Surge.ReadyAt.IsZero():
		p.WaitsFor = applied(v.o.ManagedResource)
	case v.now.Before(p.Surge.ReadyAt.Add(serviceDelay)):
		p.WaitsFor, p.RequeueAfter = "all nodes to send new connections only to "+staying.Name, p.Surge.ReadyAt.Add(serviceDelay).Sub(v.now)
	case v.o.Defragmentation != "":
		p.WaitsFor = "EtcdOpsTask " + v.o.Defragmentation + " to end"
	default:
		p.Reason = fmt.Sprintf("%s by a quorum read; removing %s leaves 1 voting member with a quorum of 1: allowed", v.quorumStatus(), leaving.Name)
		removal := removeListed(v, *leaving.Listed)
		removal.Compare = healthyPods(v.members)
		p.Step = removal
	}

	return p
}

// surgeRendering identifies the rendering of a phase. It differs after a pause.
func surgeRendering(v view, p plan.Plan) string {
	return fmt.Sprintf("%s-%d", v.o.StatefulSet.Rendering.Checksum, p.Surge.Since.Unix())
}

// isStale is true for a pod for which the kubelet may not have updated the configuration.
func isStale(pod *etcdcluster.Pod, rendering string) bool {
	return pod != nil && !pod.Deleting && pod.Refreshed != rendering
}

// removeListed is the step that removes a member in the member list.
func removeListed(v view, listed etcdcluster.ListedMember) plan.RemoveMember {
	return plan.RemoveMember{Meta: plan.Meta{Object: v.o.StatefulSet.Name, UID: v.o.StatefulSet.UID}, Member: listed.ID, Name: memberName(listed)}
}

// endSurge removes the temporary member from etcd.
func endSurge(v view, p plan.Plan) plan.Plan {
	temporary := v.members[1]
	if temporary.Listed != nil || isStale(temporary.Pod, surgeRendering(v, p)) {
		return removeSurgeMember(v, p, temporary, v.members[0])
	}

	p = nextPhase(v, p, state.SurgeCleanUp, temporary.Name+" was removed, and its volume and its pod are deleted")

	return cleanUpSurge(v, withoutTemporary(p))
}

// withoutTemporary renders the first member alone.
func withoutTemporary(p plan.Plan) plan.Plan {
	p.Replicas, p.ClusterSize, p.PodSize = 1, 1, 0

	return p
}

// cleanUpSurge deletes everything of the temporary member, which was removed from etcd.
func cleanUpSurge(v view, p plan.Plan) plan.Plan {
	first, temporary := v.members[0], v.members[1]
	p.Reason = fmt.Sprintf("%s was removed, and its volume and its pod are deleted", temporary.Name)
	if v.o.State.Surge.Phase == state.SurgeCleanUp && !v.isMemberListKnown() {
		if decided, is := withoutQuorum(v, p); is {
			return decided
		}
		p.WaitsFor = awaitedMemberList(v.o)

		return p
	}
	if temporary.Listed != nil {
		p.Step = removeListed(v, *temporary.Listed)

		return p
	}
	for _, claim := range v.o.Claims {
		if claim.Ordinal == temporary.Ordinal && claim.Exists && !claim.Deleting && v.o.State.Surge.Phase == state.SurgeCleanUp {
			p.Step = plan.DeleteClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}}

			return p
		}
	}
	if left := leftFrom(v, temporary.Ordinal); left != "" {
		p.WaitsFor = left

		return p
	}
	if lease := temporary.Lease; lease != nil {
		p.Step = plan.ResetLease{Meta: plan.Meta{Object: lease.Name, UID: lease.UID}}

		return p
	}
	p.Reason = "the surge is complete, and " + first.Name + " is the only member again"
	if p.Surge.Error == "" {
		p.Surge = completed(*p.Surge)

		return p
	}
	p.Reason = "the surge was aborted, and " + first.Name + " stays as it is"
	p.Surge.Phase, p.Surge.Since = state.SurgeAborted, v.now

	return p
}

// completed is the record of a surge that has ended. Nil: it has not replaced the member, because its cause has gone.
func completed(surge state.Surge) *state.Surge {
	if surge.Revision != "" {
		return nil
	}

	return &state.Surge{Phase: state.SurgeComplete, Since: surge.Since, Cause: surge.Cause, Pod: surge.Pod, Template: surge.Template}
}
