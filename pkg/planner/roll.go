// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// replaceOutdated decides about pods that were created from an older template. The order is: unhealthy members, followers, and the
// leader after it has transferred its leadership. Each replacement waits until the one before has recovered.
func replaceOutdated(v view, p plan.Plan) (plan.Plan, bool) {
	p.Stage = plan.StageReplacePod
	if len(v.members) == 1 && v.o.State.ScaleIn == nil {
		return replaceOnlyMember(v, p)
	}
	if member := unhealthyToReplace(v, func(etcdcluster.Pod) bool { return true }); member != nil {
		p.Reason = fmt.Sprintf("%s; %s is not healthy, and replacing it leaves %s: allowed", v.quorumStatus(), member.Pod.Name, v.quorumStatus())
		if update, once := updatePeerURLsFirst(v, *member); update != nil {
			p.Reason, p.Step = p.Reason+once, update
		} else {
			p.Step = deletePod(*member.Pod)
		}

		return p, true
	}
	candidate := nextToReplace(v)
	switch {
	case candidate == nil:
		return p, false
	case v.isScalingUp() && (v.hasScaleUpBegun() || v.healthy == v.size && needsMoreMembers(v)):
		return p, false // with all voting members the replacement costs less
	case len(v.members) == 1 && !isRepairedByReplacing(*candidate, v.o.StatefulSet):
		return p, false // it costs less when the members that leave are gone
	case int(v.etcd.Spec.Replicas) < len(v.members) && needsMoreMembers(v):
		return p, false // the quorum allows it without the members that leave
	}

	return replaceHealthy(v, p, *candidate), true
}

// needsMoreMembers is true if all members are healthy, and the quorum does not allow to replace one of them. Only another number of members does.
func needsMoreMembers(v view) bool {
	return !etcdcluster.IsQuorate(v.healthy-1, v.size) && !slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return awaitedOf(v, m) != "" })
}

// replaceOnlyMember replaces the outdated pod of the first member before another member joins. If its peer URLs change too, the operator
// registers them first. Otherwise the sidecar would register them after the start, and stop etcd a second time.
func replaceOnlyMember(v view, p plan.Plan) (plan.Plan, bool) {
	only := v.members[0]
	if !only.IsOutdated(v.o.StatefulSet) || v.hasScaleUpBegun() {
		return p, false
	}
	p = replaceSinglePod(v.etcd, v.o, p, v.now)
	if v.isScalingUp() && p.ClusterSize > 1 && only.IsHealthy() {
		p.Reason += fmt.Sprintf("; %s restarts once, with the size of the cluster, before the others join", only.Name)
	}
	urls := peers.URLs(v.etcd, only, v.o.StatefulSet.TLS.PeerCA != "")
	if p.Step != nil && only.IsHealthy() && v.isMemberListKnown() && len(v.o.Etcd.MemberList) == 1 && only.Listed != nil && !peers.IsRegisteredWith(only, urls) {
		p.Reason += fmt.Sprintf(", after its peer URLs %s are registered, so it starts only once", strings.Join(urls, ", "))
		p.Step = registerPeerURLs(only, urls)
	}

	return p, true
}

// nextToReplace is the healthy member that is replaced next. A member whose pod is not ready comes first, for example because its sidecar
// does not start: otherwise all others would wait for it. No member that leaves is replaced: it would not start again without its advertised URLs. A
// member that is registered without TLS, and still runs with it, comes next. A follower comes before the leader. Nil: no pod is outdated.
func nextToReplace(v view) *etcdcluster.Member {
	var leader *etcdcluster.Member
	for i := range v.members {
		switch member := &v.members[i]; {
		case !isRepairedByReplacing(*member, v.o.StatefulSet):
		case member.Endpoint.IsLeader():
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
		if losesPeerTLS(*member, v.o.StatefulSet) && peers.IsRegisteredWithout(v.etcd, *member) {
			return member // if a second member was registered without TLS before this one is replaced, the two could not connect
		}
	}
	for i := range v.members {
		switch member := &v.members[i]; {
		case !member.IsOutdated(v.o.StatefulSet):
		case member.Endpoint != nil && member.Endpoint.IsLeader():
			leader = member
		default:
			return member
		}
	}

	return leader
}

// unhealthyToReplace is the first unhealthy member whose outdated pod does not pass its probe according to its kubelet, and for which is
// holds. Replacing it loses nothing. Of a pod on an unreachable node only the API server reports that it is not ready; such a member may be
// healthy. Nil: none.
func unhealthyToReplace(v view, is func(etcdcluster.Pod) bool) *etcdcluster.Member {
	for i := range v.members {
		member := &v.members[i]
		if member.IsOutdated(v.o.StatefulSet) && !member.IsHealthy() && !member.Pod.Ready && !member.Pod.ContainersReady && is(*member.Pod) {
			return member
		}
	}

	return nil
}

// isRepairedByReplacing is true for a healthy member whose outdated pod is not ready: only the latest template may correct that.
func isRepairedByReplacing(m etcdcluster.Member, statefulSet etcdcluster.StatefulSet) bool {
	return m.IsOutdated(statefulSet) && m.IsHealthy() && !m.Pod.Ready && !m.Pod.IsNodeUnreachable()
}

// isNoReasonToWait is true for a member that needs the same repair as the candidate: two such members would wait for each other.
func isNoReasonToWait(v view, other, candidate etcdcluster.Member) bool {
	if other.Ordinal == candidate.Ordinal {
		return candidate.IsHealthy() // for the candidate itself that is enough: the replacement may correct what it waits for
	}

	return isRepairedByReplacing(candidate, v.o.StatefulSet) && isRepairedByReplacing(other, v.o.StatefulSet) && awaitedOfEtcd(v, other) == ""
}

// isProtectedByPDB is true if the PodDisruptionBudget refuses to evict the pod: without it, too few pods are ready. It counts the pods of members that
// leave, and no members of a joined cluster. It also refuses to evict a pod that is not ready until enough pods are ready, unless an annotation
// allows that. The planner has checked the quorum of etcd, and that the other members have recovered.
func isProtectedByPDB(v view, m etcdcluster.Member) bool {
	ready := v.readyPods() + readyPodsOf(v.leaving)
	if m.Pod.Ready {
		ready--
	} else if metav1.HasAnnotation(v.etcd.ObjectMeta, druidv1alpha1.AllowUnhealthyPodEvictionAnnotation) {
		return false
	}

	return !etcdcluster.IsQuorate(ready, len(v.members)+len(v.leaving))
}

// replaceHealthy evicts the pod of a healthy member, if the quorum allows it. All others must have recovered before: otherwise the cluster
// could lose the quorum with one more failure.
func replaceHealthy(v view, p plan.Plan, m etcdcluster.Member) plan.Plan {
	after := v.healthy
	if m.IsHealthy() {
		after--
	}
	p.Reason = replacing(m.Pod.Name, v.healthy, after, v.size)
	if defragmented := notWhileDefragmenting(v.o, p); defragmented != nil {
		return *defragmented
	}
	if !v.isMemberListKnown() {
		p.Reason += ": not without the member list"
		p.WaitsFor = awaitedMemberList(v.o)

		return p
	}
	for _, other := range v.members {
		if awaited := awaitedOf(v, other); awaited != "" && !isNoReasonToWait(v, other, m) {
			p.Reason += ": not before all members have recovered"
			p.WaitsFor = awaited + otherProblems(v, other, m)

			return p
		}
	}
	if !etcdcluster.IsQuorate(after, v.size) {
		p.Reason += fmt.Sprintf(", fewer than the quorum of %d: not allowed", etcdcluster.QuorumOf(v.size))
		p.WaitsFor = "more healthy members"

		return p
	}
	if m.Endpoint != nil && m.Endpoint.IsLeader() {
		return moveLeader(v, p, m)
	}
	if update, once := updatePeerURLsFirst(v, m); update != nil && !isPeerURLStable(*m.Pod, v.now) && !hasHeartbeatSinceStart(m) {
		p.Reason += ": not before its sidecar has registered its peer URLs, because it would change them back"
		p.WaitsFor = "the heartbeat of member " + m.Name

		return p
	} else if update != nil {
		p.Reason, p.Step = p.Reason+": allowed"+once, update

		return p
	}
	p.Reason += ": allowed"
	if isProtectedByPDB(v, m) {
		p.Reason += "; the PodDisruptionBudget allows no eviction, so that the pod is deleted"
		p.Step = deletePod(*m.Pod)

		return p
	}
	p.Step = plan.EvictPod{Meta: plan.Meta{Object: m.Pod.Name, UID: m.Pod.UID}}

	return p
}

// moveLeader transfers leadership to a member that was replaced already, or else to any other healthy member. A member that is still to be
// replaced would have to transfer it again.
func moveLeader(v view, p plan.Plan, leader etcdcluster.Member) plan.Plan {
	var successor *etcdcluster.Member
	candidates := v.members
	if len(candidates) == 1 {
		candidates = slices.Concat(v.members, v.leaving)
	}
	for i := range candidates {
		member := &candidates[i]
		if member.Ordinal == leader.Ordinal || !mayLead(*member) {
			continue
		}
		if successor == nil || successor.IsOutdated(v.o.StatefulSet) && !member.IsOutdated(v.o.StatefulSet) {
			successor = member
		}
	}
	if successor == nil {
		p.WaitsFor = "another healthy member"

		return p
	}
	p.Reason += fmt.Sprintf(": allowed, after leadership is transferred to %s", successor.Name)
	p.Step = plan.MoveLeader{Meta: plan.Meta{Object: leader.Pod.Name, UID: leader.Pod.UID}, To: successor.ID(), ToName: successor.Name}

	return p
}

// notWhileDefragmenting returns the plan that waits with the replacement of a healthy member while members are defragmented. Each of them
// is unhealthy for a while. Nil: no task defragments members.
func notWhileDefragmenting(o etcdcluster.Observation, p plan.Plan) *plan.Plan {
	if o.Defragmentation == "" {
		return nil
	}
	p.Reason += ": not while members are defragmented"
	p.WaitsFor = "EtcdOpsTask " + o.Defragmentation + " to end"
	p.PollMembers = true

	return &p
}

// unreadyHoldTime is how long the pod of a single member has to be not ready before it is replaced although the store is unreachable. A
// failed probe and the restart of a container take less.
const unreadyHoldTime = 2 * time.Minute

// heldByNode returns the plan that waits for the node of a single member's pod to be reachable. Nil: it is. Deleting the pod would not
// start another one before the node has recovered, and etcd may be healthy there.
func heldByNode(p plan.Plan, pod etcdcluster.Pod) *plan.Plan {
	if !pod.IsNodeUnreachable() {
		return nil
	}
	p.Step = nil
	p.Reason += fmt.Sprintf(": not while node %s is unreachable, where etcd may be healthy", pod.Node)
	p.WaitsFor = fmt.Sprintf("node %s to be reachable%s", pod.Node, outOfServiceHint(pod))

	return &p
}

// heldByStore returns the plan that waits for the store instead of replacing the pod of a single member of a canonical Etcd. Nil: a restart
// is safe, the pod has not been ready for unreadyHoldTime, or the pod never started because of its image. In the last two cases it is
// replaced without the store, because otherwise a corrected spec would never be rolled out.
func heldByStore(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, pod etcdcluster.Pod, now time.Time) *plan.Plan {
	unavailable := StoreUnavailable(etcd, o, pod, now)
	if unavailable == "" || pod.NeverStarts() {
		return nil
	}
	anyway := "To replace the pod without waiting, delete it"
	if !pod.Ready {
		until := pod.ReadinessSince().Add(unreadyHoldTime)
		if !now.Before(until) {
			return nil
		}
		p.RequeueAfter = until.Sub(now)
		anyway = fmt.Sprintf("If the pod is not ready by %s, the operator replaces it without waiting", until.UTC().Format(time.RFC3339))
	}
	p.Step = nil
	p.WaitsFor = fmt.Sprintf("a new snapshot in the store: %s. Pod %s cannot start again without the store. %s", unavailable, pod.Name, anyway)

	return &p
}

// deletePod deletes a pod only in its observed state: a pod that has changed since may be healthy.
func deletePod(p etcdcluster.Pod) plan.Step {
	return plan.DeletePod{Meta: plan.Meta{Object: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}}
}

// replacing states what the replacement of a member does to the quorum.
func replacing(name string, healthy, after, size int) string {
	sentence := fmt.Sprintf("%d of %d healthy; replacing %s leaves %d of %d", healthy, size, name, after, size)
	if size == 1 && after < healthy {
		return sentence + ", which a single member cannot avoid"
	}

	return sentence
}

// renderedAlone is the first member of an adopted cluster if its pod was rendered with size 1 and other members run. etcd-druid restarts it after
// the last member has joined. Nil: it was not. No pod of etcd-druid has a hook. The first member was started alone if a newer pod, also outdated,
// has another configuration.
func renderedAlone(v view) *etcdcluster.Member {
	isAdopted := v.o.State.InitialClusterToken != ""
	if !isAdopted || len(v.members) < 2 || joinsExisting(v.etcd, v.o) || !v.members[0].UsesStore() || !v.members[0].IsOutdated(v.o.StatefulSet) || v.members[0].Pod.HasPreStopHook {
		return nil
	}
	first := &v.members[0]
	for _, other := range v.members[1:] {
		if other.Pod != nil && other.IsOutdated(v.o.StatefulSet) && other.Pod.ConfigChecksum != first.Pod.ConfigChecksum && first.Pod.CreationTime.Before(other.Pod.CreationTime) {
			return first
		}
	}

	return nil
}

// replaceRenderedAlone replaces a first member that was rendered with size 1 before anything else. It does so if the member is the only
// voting member, if the quorum is kept, or if the last member does not start. In the last case the quorum recovers with the pod. Without
// the replacement a second cluster would remain.
func replaceRenderedAlone(v view, p plan.Plan) (plan.Plan, bool) {
	first := renderedAlone(v)
	if first == nil || !first.IsHealthy() || !v.isMemberListKnown() {
		return p, false
	}
	decided := p
	decided.Stage = plan.StageReplacePod
	switch {
	case v.size == 1:
		decided = replaceSinglePod(v.etcd, v.o, decided, v.now)
	case etcdcluster.IsQuorate(v.healthy-1, v.size):
		decided = replaceHealthy(v, decided, *first)
	case v.healthy < v.size || v.o.Defragmentation != "" || !isLastOverdue(v):
		return p, false
	default:
		decided.Reason = fmt.Sprintf("%s; replacing %s leaves %d of %d, fewer than the quorum of %d, until it has recovered: allowed, because %s does not start",
			v.quorumStatus(), first.Pod.Name, v.healthy-1, v.size, etcdcluster.QuorumOf(v.size), v.members[len(v.members)-1].Name)
		if heldByNode(decided, *first.Pod) == nil && heldByStore(decided, v.etcd, v.o, *first.Pod, v.now) == nil {
			decided.Step = deletePod(*first.Pod)
		}
	}
	if decided.Step == nil && v.size > 1 {
		return p, false // the step that it waits for may be due
	}
	decided.Reason += "; its sidecar was rendered with size 1 and would restore a second cluster from the store"

	return decided, true
}

// isLastOverdue is true if the last member was started long ago, and is no voting member. Its pod may be pending, restart repeatedly, or
// be recreated. The age of the claim, which outlives the pod, shows how long ago. A listed learner whose etcd runs may be catching up, also
// while it does not respond.
func isLastOverdue(v view) bool {
	last := v.members[len(v.members)-1]
	if len(v.members) <= v.size || last.IsHealthy() || last.Listed != nil && last.Pod != nil && last.Pod.IsRunning() {
		return false
	}
	started := v.now
	if claim := v.o.ClaimFor(last.Ordinal); claim != nil && claim.Exists {
		started = claim.CreationTime
	} else if last.Pod != nil {
		started = last.Pod.CreationTime
	}

	return v.now.Sub(started) >= etcdcluster.MemberStartTimeout
}

// StoreUnavailable returns why the single member of a canonical Etcd must not be restarted now. The member depends on a backup store, and
// the newest snapshot is too old for the store to count as reachable. Without the store the sidecar does not start etcd again. The age
// comes from the Leases that the sidecar renews after each snapshot. Empty: the store is reachable, there is none, or its settings are
// about to change, since the restart may correct the problem.
func StoreUnavailable(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, pod etcdcluster.Pod, now time.Time) string {
	if !helper.IsStoreConfigured(etcd) || pod.Store != o.StatefulSet.Store {
		return ""
	}
	newest := o.FullSnapshotLease.RenewTime
	if delta := o.DeltaSnapshotLease.RenewTime; delta.After(newest) {
		newest = delta
	}
	if newest.IsZero() {
		return "the sidecar has not recorded any yet"
	}
	if !helper.TakesDeltaSnapshots(etcd) {
		return "" // no delta snapshots: the age of the full snapshot does not show whether the store is reachable
	}
	if now.Sub(newest) > 3*helper.DeltaSnapshotPeriod(etcd)+time.Minute {
		return fmt.Sprintf("the newest one was taken at %s, so the store may be unreachable", newest.UTC().Format(time.RFC3339))
	}

	return ""
}
