// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// haltOnClusterIDMismatch stops if members have different cluster IDs. Each step could delete the data of one of the clusters, and the
// operator does not know which one is in use.
func haltOnClusterIDMismatch(v view, p plan.Plan) (plan.Plan, bool) {
	clusters := map[uint64][]string{}
	for _, member := range slices.Concat(v.members, v.leaving) {
		if member.Endpoint != nil && member.Endpoint.ClusterID != 0 {
			clusters[member.Endpoint.ClusterID] = append(clusters[member.Endpoint.ClusterID], member.Name)
		}
	}
	if len(clusters) < 2 {
		return p, false
	}
	var sentences []string
	for id, names := range clusters {
		sentences = append(sentences, strings.Join(names, " and ")+" of cluster "+etcdcluster.FormatID(id))
	}
	slices.Sort(sentences)
	p.Stage, p.Render = plan.StageHalted, false
	p.Reason = "the members have different cluster IDs, so the operator changes nothing"
	p.WaitsFor = "one cluster ID for all members: " + strings.Join(sentences, ", ")

	return p, true
}

// withoutQuorum decides if too few members are healthy. It changes nothing, except that it replaces pods that cannot become healthy.
func withoutQuorum(v view, p plan.Plan) (plan.Plan, bool) {
	if v.isQuorate() {
		return p, false
	}
	if v.isAnyHealthy() {
		p.Stage = plan.StageWaitForMembers
		p.Reason = v.quorumStatus() + ", but a member completes linearizable reads, so a quorum exists: the operator cannot reach the other members and changes nothing"
		p.WaitsFor = awaitedOfMembers(v)

		return p, true
	}
	if member := unhealthyToReplace(v, func(pod etcdcluster.Pod) bool { return isUnavailable(pod, v.now) && !awaitsOther(v, pod) }); member != nil {
		p.Stage = plan.StageReplacePod
		p.Reason = fmt.Sprintf("%s; no member is healthy, so replacing %s is safe", v.quorumStatus(), member.Pod.Name)
		if waits := heldByStore(p, v.etcd, v.o, *member.Pod, v.now); waits != nil && (len(v.members) == 1 || v.o.State.Surge.IsActive() && v.size == 1) {
			return *waits, true
		}
		p.Step = deletePod(*member.Pod)

		return p, true
	}
	if decided, is := haltOnUnrecoverableQuorum(v, p); is {
		return decided, true
	}

	decided := waitForQuorum(v, p)
	decided.WaitsFor += existingHint(v)

	return decided, true
}

// waitForQuorum waits while members may still start. As soon as all pods are older than MemberStartTimeout, it reports the quorum as lost,
// because a user must act then.
func waitForQuorum(v view, p plan.Plan) plan.Plan {
	p.Stage = plan.StageWaitForMembers
	p.Reason = v.quorumStatus() + "; the members start"
	p.WaitsFor = awaitedOfMembers(v)
	isImageMissing := slices.ContainsFunc(v.o.Pods, func(pod etcdcluster.Pod) bool { return pod.ImagePullError() != "" })
	if isImageMissing && v.neverFormed() {
		p.Reason = v.quorumStatus() + "; the cluster never formed"

		return p
	}
	if v.hasNewPod() || slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return m.Pod == nil }) {
		return p
	}
	p.Stage = plan.StageQuorumLost
	p.Reason = fmt.Sprintf("%s, fewer than the quorum of %d; the operator changes nothing", v.quorumStatus(), etcdcluster.QuorumOf(v.size))
	if isImageMissing {
		return p
	}

	return inspectStoppedMembers(v, p)
}

// haltOnUnrecoverableQuorum stops if the data of so many members is lost that the other members are no quorum, even if all of them recover. It
// states the options for a recovery, see beginRecovery.
func haltOnUnrecoverableQuorum(v view, p plan.Plan) (plan.Plan, bool) {
	loss := quorumLossOf(v)
	if loss == nil {
		return p, false
	}
	survivors := "no data is left"
	if len(loss.Left) > 0 {
		survivors = "data of " + strings.Join(loss.Left, " and ") + " is left"
	}
	p.Stage = plan.StageQuorumLost
	p.Reason = fmt.Sprintf("%s, and the quorum of %d cannot recover: %s; the operator changes nothing", v.quorumStatus(), etcdcluster.QuorumOf(loss.Votes), strings.Join(loss.Lost, "; "))
	p.WaitsFor = fmt.Sprintf("a manual recovery (%s), or %s", survivors, recovery(v.etcd, v.o))
	if !v.o.State.Surge.IsActive() { // no recovery begins in a surge, see QuorumLossOf
		p = withQuorumLoss(v, p, loss)
	}

	return inspectStoppedMembers(v, p), true
}

// quorumAfterLoss returns how many members vote, and whether those whose data is not lost may be a quorum. intact is the number of these
// members.
//
// The recorded voting members decide, because the members that were started last may not vote yet. The extra member of a volume migration may not
// either. Members that joined may have been promoted after that record. They count as voting members if their data is not lost. Without a record, all
// members vote, except during a scale-up: then it is not known whether the quorum is lost.
func quorumAfterLoss(v view, intact int) (votes int, mayRecover bool) {
	recorded := v.o.State.Evidence
	if recorded == nil || len(recorded.Voters) == 0 {
		return v.size, v.hasScaleUpBegun() || etcdcluster.IsQuorate(intact, v.size)
	}
	lostVoters, promoted := 0, 0
	for _, member := range v.members {
		isIntact := dataLostReason(v, member) == ""
		isVoter := slices.ContainsFunc(recorded.Voters, func(voter state.Voter) bool { return isMember(voter, member) })
		switch {
		case isVoter && !isIntact:
			lostVoters++
		case !isVoter && isIntact && hasJoined(member) && !isLearner(v, member):
			promoted++
		}
	}
	// Voting members without a pod of this Etcd, for example those of a cluster that the Etcd joins, count as intact.
	votes = len(recorded.Voters) + promoted

	return votes, etcdcluster.IsQuorate(votes-lostVoters, votes)
}

// isLearner is true if a member reports that it is a learner, although all pods had time to form a quorum. It may have been promoted without its
// knowledge, see bestMember.
func isLearner(v view, m etcdcluster.Member) bool {
	return m.Endpoint != nil && m.Endpoint.Reachable && m.Endpoint.Learner && !v.hasNewPod()
}

// isMember is true if the record is about the member. etcd publishes the name of a member after it has started.
func isMember(voter state.Voter, m etcdcluster.Member) bool {
	switch {
	case voter.Name != "":
		return voter.Name == m.Name
	case m.Listed != nil:
		return etcdcluster.FormatID(m.Listed.ID) == voter.ID
	default:
		return m.Heartbeat != nil && etcdcluster.FormatID(m.Heartbeat.MemberID) == voter.ID
	}
}

// hasJoined is true if the member has responded, or if its Lease or the member list contains it. Its sidecar sends the first heartbeat some
// seconds after etcd has started.
func hasJoined(m etcdcluster.Member) bool {
	hasHeartbeat := m.Heartbeat != nil || m.HeartbeatError != ""

	return hasHeartbeat || m.Listed != nil || m.Endpoint != nil && m.Endpoint.Reachable
}

// waitForMembers waits for members that have not recovered, because the rules after it need a cluster in which all have.
func waitForMembers(v view, p plan.Plan) (plan.Plan, bool) {
	for _, member := range v.members {
		awaited := awaitedOf(v, member)
		if v.isScalingUp() && v.readyPods() > 0 {
			awaited = awaitedToScaleUp(v, member)
		}
		if awaited == "" {
			continue
		}
		p.Stage, p.WaitsFor = plan.StageWaitForMembers, awaited+otherProblems(v, member)
		p.Reason = v.quorumStatus() + "; the members start, no action needed"
		if deadline := joinDeadline(v, member); !deadline.IsZero() {
			p.RequeueAfter = deadline.Sub(v.now)
		}
		if v.isScalingUp() && v.hasScaleUpBegun() {
			p.Stage = plan.StageScaleUp
			p.Reason = fmt.Sprintf("%s; %d of %d members have been added", v.quorumStatus(), len(v.members), v.etcd.Spec.Replicas)
		}
		p.Reason += wayBack(v, member)

		return p, true
	}
	if !v.isMemberListKnown() {
		p.Stage, p.WaitsFor = plan.StageWaitForMembers, awaitedMemberList(v.o)
		p.Reason = v.quorumStatus() + "; the operator does not continue without the member list"

		return p, true
	}

	return p, false
}

// wayBack names how to take back the operation whose next member does not start. Empty: it starts, or there is no such operation.
func wayBack(v view, m etcdcluster.Member) string {
	before := etcdcluster.SizeBefore(v.etcd, v.o)
	switch {
	case v.o.StartProblem(m.Ordinal) == "":
		return ""
	case v.o.State.Migration.AddsMember():
		return "; change spec.storageClass and spec.storageCapacity back to take the volume migration back"
	case before > 0:
		return fmt.Sprintf("; set spec.replicas to %d to take the scale-up back", before)
	default:
		return ""
	}
}

// awaitedOfMembers describes what all members must reach that have not recovered, because any of them may restore the quorum.
func awaitedOfMembers(v view) string {
	var sentences []string
	for _, member := range v.members {
		if sentence := awaitedOf(v, member); sentence != "" {
			sentences = append(sentences, sentence)
		}
	}
	if len(sentences) == 0 {
		return awaitedMemberList(v.o)
	}

	return strings.Join(sentences, "; ")
}

// awaitedOf describes what a member must reach after its pod was created before it counts as recovered. Empty: it has recovered. Its
// registered peer URLs must be the configured ones: otherwise its sidecar would change them, and stop etcd once more.
func awaitedOf(v view, m etcdcluster.Member) string {
	sentence := awaitedOfPod(v, m)
	if sentence == "" {
		sentence = awaitedOfEtcd(v, m)
	}
	if sentence == "" {
		return ""
	}

	return sentence + snapshotHint(v, m)
}

// awaitedToScaleUp describes what a member must reach before the next member may join: it is healthy. Its pod need not be ready if another
// one is.
func awaitedToScaleUp(v view, m etcdcluster.Member) string {
	if m.Pod == nil || m.Pod.Deleting || !m.IsHealthy() {
		return awaitedOf(v, m)
	}

	return awaitedOfEtcd(v, m)
}

// awaitedOfEtcd is awaitedOf without the pod: a member whose pod is not ready may have recovered otherwise.
func awaitedOfEtcd(v view, m etcdcluster.Member) string {
	switch {
	case m.Endpoint == nil || !m.Endpoint.Reachable:
		return "a response of member " + m.Name
	case m.Endpoint.Learner || m.Listed != nil && m.Listed.Learner:
		return "learner " + m.Name + " to catch up before its promotion"
	case !m.Endpoint.Healthy:
		return "member " + m.Name + " to be healthy"
	case m.Listed == nil && len(v.o.Etcd.MemberList) > 0:
		return "member " + m.Name + " to be in the member list"
	case mayStopForNewerURLs(v, m):
		return "the heartbeat of member " + m.Name
	case isConfiguredAsBefore(m, v.o.StatefulSet, v.now), losesPeerTLS(m, v.o.StatefulSet) && peers.IsRegisteredWith(m, peers.URLs(v.etcd, m, false)):
		return ""
	case awaitedURLs(v.etcd, m) != "":
		return awaitedURLs(v.etcd, m)
	case len(v.members) > 1 && isBeforeHeartbeat(m, v.now):
		return "the heartbeat of member " + m.Name + " with its new peer URLs"
	default:
		return ""
	}
}

// awaitedOfPod is awaitedOf for the pod only. Its state names the cause more exactly than a missing response of the member.
func awaitedOfPod(v view, m etcdcluster.Member) string {
	problem := v.o.StartProblem(m.Ordinal)
	switch {
	case m.Pod == nil && problem != "":
		return "member " + m.Name + ": " + problem
	case m.Pod == nil:
		return "pod " + helper.PodName(v.etcd, m.Ordinal) + " to be created"
	case m.Pod.Deleting:
		return "pod " + m.Pod.Name + " to be recreated" + overdueHint(v.etcd, v.o, *m.Pod, v.now)
	case !m.Pod.Ready && problem != "":
		return "member " + m.Name + ": " + problem + overdueHint(v.etcd, v.o, *m.Pod, v.now) + prefixHint(v.etcd, m.Pod)
	case !m.Pod.Ready && m.Endpoint != nil && m.Endpoint.Learner:
		return "learner " + m.Name + " to catch up before its promotion"
	case !m.Pod.Ready:
		return "pod " + m.Pod.Name + " to be ready" + overdueHint(v.etcd, v.o, *m.Pod, v.now) + prefixHint(v.etcd, m.Pod)
	default:
		return ""
	}
}

// awaitedMemberList describes a missing member list. Each change that depends on the quorum waits for it.
func awaitedMemberList(o etcdcluster.Observation) string {
	return "the member list: " + o.Etcd.MemberListError
}

// deletionHint is what to check if a pod that is being deleted had to stop unreadyHoldTime ago. Empty: it is too early, or it is not being deleted.
func deletionHint(pod etcdcluster.Pod, now time.Time) string {
	if !pod.Deleting || pod.Node == "" || pod.DeletionTime.IsZero() || now.Sub(pod.DeletionTime) < unreadyHoldTime {
		return ""
	}

	return fmt.Sprintf(": pod %s had to stop by %s; check node %s%s", pod.Name, pod.DeletionTime.UTC().Format(time.RFC3339), pod.Node, outOfServiceHint(pod))
}

// overdueHint is what to check if a pod has not been ready for unreadyHoldTime, and no other problem is known. Its kubelet starts a container again
// that has ended. Empty: it is too early, or the problem says more.
func overdueHint(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, pod etcdcluster.Pod, now time.Time) string {
	hasEnded := slices.ContainsFunc(pod.Containers, func(c etcdcluster.Container) bool { return c.State == etcdcluster.ContainerTerminated && !c.Init })
	isOverdue := pod.Node != "" && !pod.Ready && now.Sub(pod.ReadinessSince()) >= unreadyHoldTime
	switch since := pod.ReadinessSince().UTC().Format(time.RFC3339); {
	case pod.Deleting:
		return deletionHint(pod, now)
	case !isOverdue, !hasEnded && o.StartProblem(pod.Ordinal) != "":
		return ""
	case pod.IsNodeUnreachable():
		return fmt.Sprintf(": node %s has been unreachable since %s%s", pod.Node, since, outOfServiceHint(pod))
	case helper.IsStoreConfigured(etcd) && etcdcluster.RenderedReplicas(o) <= 1:
		return fmt.Sprintf(": it has not been ready since %s; check node %s, the store that etcd needs to start, and the logs of the pod", since, pod.Node)
	default:
		return fmt.Sprintf(": it has not been ready since %s; check node %s and the logs of the pod", since, pod.Node)
	}
}

// otherProblems names the members that have not been ready for unreadyHoldTime, other than these. They may be the reason why a member does not
// recover: etcd adds no member while another one is not connected. Empty: there are none.
func otherProblems(v view, than ...etcdcluster.Member) string {
	var sentences strings.Builder
	for _, other := range v.members {
		isGiven := slices.ContainsFunc(than, func(m etcdcluster.Member) bool { return m.Ordinal == other.Ordinal })
		if pod := other.Pod; isGiven || pod == nil || pod.Ready || v.now.Sub(pod.ReadinessSince()) < unreadyHoldTime {
			continue
		}
		hint := overdueHint(v.etcd, v.o, *other.Pod, v.now)
		if hint != "" || !other.Pod.Deleting && v.o.StartProblem(other.Ordinal) != "" {
			sentences.WriteString("; " + awaitedOfPod(v, other))
		}
	}

	return sentences.String()
}

// prefixHint returns what member names with a prefix need, for a pod that is not ready. A sidecar without support for them finds neither
// the URLs nor the Lease of its member, and never starts etcd. Empty: the names have no prefix.
func prefixHint(etcd *druidv1alpha1.Etcd, pod *etcdcluster.Pod) string {
	if prefix := etcd.Spec.MemberNamePrefix; prefix == nil || *prefix == "" {
		return ""
	}
	if image := pod.Image(etcdcluster.ContainerBackupRestore); image != "" {
		return fmt.Sprintf(" (spec.memberNamePrefix needs etcd-backup-restore v0.43.0 or newer; the pod runs %s)", image)
	}

	return ""
}

// isUnavailable is true for a pod that does not run etcd, or has not been ready for unreadyTime. During an election no member is healthy
// either.
func isUnavailable(pod etcdcluster.Pod, now time.Time) bool {
	return !pod.IsRunning() || now.Sub(pod.ReadinessSince()) > unreadyTime
}

// unreadyTime is how long a running pod must not have been ready, while no member is healthy, before it may be replaced.
const unreadyTime = time.Minute
