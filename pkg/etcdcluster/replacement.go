// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// replace decides about pods that were made from an older template: first those that do not serve, then followers, and the
// leader after it handed over. Each waits for the one before to be back.
func (v view) replace(plan Plan) (Plan, bool) {
	plan.Stage = StageReplacePod
	if len(v.members) == 1 {
		return v.replaceOnly(plan)
	}
	if member := v.replaceable(func(Pod) bool { return true }); member != nil {
		plan.Reason = fmt.Sprintf("%s; %s does not serve, and replacing it leaves %s: allowed", v.arithmetic(), member.Pod.Name, v.arithmetic())
		if told, once := v.toBeToldBefore(*member); told != nil {
			plan.Reason, plan.Step = plan.Reason+once, told
		} else {
			plan.Step = member.Pod.toBeDeleted()
		}

		return plan, true
	}
	if v.isGrowing() && v.hasBegunToGrow() {
		return plan, false // with all voters there, replacing costs less
	}
	candidate := v.candidate()
	if candidate == nil {
		return plan, false
	}

	return v.replaceServing(plan, *candidate), true
}

// replaceOnly replaces the outdated pod of the first member before another member joins. If its peer URLs change too, the operator
// registers them first. Otherwise the sidecar would register them after the start, and stop etcd a second time.
func (v view) replaceOnly(plan Plan) (Plan, bool) {
	only := v.members[0]
	if !v.isOutdated(only) || v.hasBegunToGrow() {
		return plan, false
	}
	plan = replaceSinglePod(v.etcd, v.o, plan, v.now)
	if v.isGrowing() && plan.ClusterSize > 1 && only.Serves() {
		plan.Reason += fmt.Sprintf("; %s restarts once, with the size of the cluster, before the others join", only.Name)
	}
	urls := peerURLs(v.etcd, only, v.o.StatefulSet.TLS.PeerCA != "")
	if plan.Step != nil && only.Serves() && v.isSeen() && len(v.o.Etcd.MemberList) == 1 && only.Listed != nil && !only.isKnownBy(urls) {
		plan.Reason += fmt.Sprintf(", once it is known by %s, by which nobody dials it: so it starts once", strings.Join(urls, ", "))
		plan.Step = only.toBeKnownBy(urls)
	}

	return plan, true
}

// candidate is the member to be replaced next among those that serve: first one whose pod is not ready, as where its sidecar does
// not start, since all others would wait for it; then a follower before the leader. Nil: none is outdated.
func (v view) candidate() *Member {
	var leader *Member
	for i := range v.members {
		switch member := &v.members[i]; {
		case !v.isCuredByReplacing(*member):
		case member.Answer.Leads():
			leader = member
		default:
			return member
		}
	}
	if leader != nil {
		return leader
	}
	for i := range v.members {
		member := &v.members[i]
		switch {
		case v.losesPeerTLS(*member) && member.isKnownBy(peerURLs(v.etcd, *member, false)):
			return member // two that nobody can dial could not dial each other
		case !v.isOutdated(*member):
		case member.Answer != nil && member.Answer.Leads():
			leader = member
		default:
			return member
		}
	}

	return leader
}

// isCuredByReplacing is true for a member that serves and whose outdated pod is not ready: what keeps it from that may be mended in
// the newest template, and nothing else.
func (v view) isCuredByReplacing(m Member) bool {
	return v.isOutdated(m) && m.Serves() && !m.Pod.Ready && !isOutOfSight(*m.Pod)
}

// isNoReasonToWait is true for a member that waits for the same cure as the candidate: two of them would wait for each other.
func (v view) isNoReasonToWait(other, candidate Member) bool {
	if other.Ordinal == candidate.Ordinal {
		return candidate.Serves() // of itself that is enough: what it still waits for may be what replacing it cures
	}

	return v.isCuredByReplacing(candidate) && v.isCuredByReplacing(other) && v.awaitedOfMember(other) == ""
}

// isSparedByBudget is true where the PodDisruptionBudget refuses the eviction of every pod, one that is not ready among them, until
// more are ready: there a pod that is not ready would never be replaced.
func (v view) isSparedByBudget(m Member) bool {
	ready := 0
	for _, member := range v.members {
		if member.Pod != nil && member.Pod.Ready && !member.Pod.Deleting {
			ready++
		}
	}

	return !m.Pod.Ready && !IsQuorate(ready, len(v.members)) && !metav1.HasAnnotation(v.etcd.ObjectMeta, druidv1alpha1.AllowUnhealthyPodEvictionAnnotation)
}

// isOutOfSight is true for a pod of which only the API server says that it is not ready: its node is cut off.
func isOutOfSight(pod Pod) bool { return !pod.Ready && pod.ContainersReady }

// replaceServing evicts a pod that serves, as far as the quorum allows.
func (v view) replaceServing(plan Plan, m Member) Plan {
	after := v.healthy
	if m.Serves() {
		after--
	}
	plan.Reason = replacing(m.Pod.Name, v.healthy, after, v.size)
	if defragmented := v.o.notWhileDefragmenting(plan); defragmented != nil {
		return *defragmented
	}
	if !v.isSeen() {
		plan.Reason += ": not without knowing the members"
		plan.WaitsFor = "the list of members: " + v.o.Etcd.MemberListError

		return plan
	}
	for _, other := range v.members {
		if awaited := v.awaited(other); awaited != "" && !v.isNoReasonToWait(other, m) {
			plan.Reason += ": not before all are back"
			plan.WaitsFor = awaited

			return plan
		}
	}
	if !IsQuorate(after, v.size) {
		plan.Reason += fmt.Sprintf(", fewer than the quorum of %d: not allowed", QuorumOf(v.size))
		plan.WaitsFor = "more members to serve"

		return plan
	}
	if m.Answer != nil && m.Answer.Leads() {
		return v.moveLeader(plan, m)
	}
	if told, once := v.toBeToldBefore(m); told != nil && !v.isSettled(m) && !v.hasBeaten(m) {
		plan.Reason += ": not before its sidecar has settled its peer URLs, which it would set back"
		plan.WaitsFor = "the heartbeat of member " + m.Name

		return plan
	} else if told != nil {
		plan.Reason, plan.Step = plan.Reason+": allowed"+once, told

		return plan
	}
	plan.Reason += ": allowed"
	if v.isSparedByBudget(m) {
		plan.Reason += "; the PodDisruptionBudget allows no eviction while fewer than a quorum of pods are ready, so that the pod is deleted"
		plan.Step = m.Pod.toBeDeleted()

		return plan
	}
	plan.Step = &Step{Kind: StepEvictPod, Object: m.Pod.Name, UID: m.Pod.UID}

	return plan
}

// moveLeader hands over to a member that was replaced already, else to any other that serves.
func (v view) moveLeader(plan Plan, leader Member) Plan {
	var successor *Member
	for i := range v.members {
		member := &v.members[i]
		if member.Ordinal == leader.Ordinal || !member.Serves() {
			continue
		}
		if successor == nil || v.isOutdated(*successor) && !v.isOutdated(*member) {
			successor = member
		}
	}
	if successor == nil {
		plan.WaitsFor = "another member to serve"

		return plan
	}
	plan.Reason += fmt.Sprintf(": allowed, once %s leads in its place", successor.Name)
	plan.Step = &Step{Kind: StepMoveLeader, Object: leader.Pod.Name, UID: leader.Pod.UID, To: successor.ID()}

	return plan
}
