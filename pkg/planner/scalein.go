// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// A scale-in removes the members with the highest ordinals, in these steps. Each of them is complete when an observation shows its effect.
//
//  1. All members that stay are healthy voting members. If those that leave are healthy too, all run the latest rendered manifests.
//  2. A full snapshot is verified. Without a store, the members that stay have the same data.
//  3. The pods of the members that stay get the label with which the client Service selects them.
//  4. The configuration is rendered without the advertised URLs of the members that leave. Without them, the sidecar of a removed member does
//     not add a learner. The client Service selects only the members that stay. From here on, the scale-in is recorded.
//  5. The kubelet updates the configuration in the pods that leave.
//  6. It is recorded that members are removed. The leadership moves to a member that stays. The members are removed, the highest ordinal first,
//     without a pause at an even number.
//  7. The claims of the removed members are deleted. Their pods stop, and their Leases are deleted.
//  8. The configuration and the Service are rendered for the new size.
//
// A member is removed before its pod stops. With the opposite order, two voting members of which one has stopped would have no quorum.

// withLastSize returns the Etcd with the size with which its members run now. A scale-in that has removed members continues to its end. A
// hibernated cluster wakes up with all its members.
func withLastSize(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *druidv1alpha1.Etcd {
	size, last := etcd.Spec.Replicas, etcdcluster.LastSize(o)
	switch {
	case !helper.ManagesPods(etcd) || o.State.Restore != state.RestoreNone || o.State.Surge.IsActive():
	case hasRemovedMembers(etcd, o):
		size = o.State.ScaleIn.To
	case size > 1 && o.State.Migration.AddsMember() && etcdcluster.RenderedReplicas(o) > 0:
		size++
	case size == 0 && isRemovingExisting(etcd, o):
		size = last
	case size > 0 && size < last && etcdcluster.RenderedReplicas(o) == 0:
		size = last
	}
	if size == etcd.Spec.Replicas {
		return etcd
	}
	resized := etcd.DeepCopy()
	resized.Spec.Replicas = size

	return resized
}

// hasRemovedMembers is true if a scale-in may have removed a member from etcd. It is false again if a quorum read shows that it has not.
func hasRemovedMembers(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	scaleIn := o.State.ScaleIn
	if scaleIn == nil || !scaleIn.Removing {
		return false
	}
	leaving := leavingMembers(etcd, o, scaleIn.To)

	return len(o.Etcd.MemberList) == 0 || slices.ContainsFunc(leaving, func(m etcdcluster.Member) bool { return m.Listed == nil || m.Listed.Learner })
}

// leavingMembers returns the members from this ordinal on.
func leavingMembers(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, to int32) []etcdcluster.Member {
	members := etcdcluster.MembersOf(etcd, o, max(to, etcdcluster.RenderedReplicas(o), o.State.Size))

	return members[to:]
}

// isSingle is true for a cluster that has one member and is to have one.
func isSingle(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	return etcd.Spec.Replicas == 1 && len(etcdcluster.LeavingExisting(etcd)) == 0 && etcdcluster.RenderedReplicas(o) <= 1 && o.State.ScaleIn == nil && (o.State.Size <= 1 || o.State.Restore != state.RestoreNone)
}

// withoutLeaving returns the view without the members that leave. The quorum counts those that are not removed yet. A member that was removed
// may respond, also as a member of another cluster. Without a quorum, the members that leave have to recover as the others. The view then lacks only
// those that were removed, and the second result is true. The same applies if no member that stays is healthy: its sidecar joins through the client
// Service, which would select none of the others. It also applies while members have different data: the members that leave may be a part of the
// quorum that decides which data is correct.
func (v view) withoutLeaving() (view, bool) {
	scaleIn := v.o.State.ScaleIn
	if scaleIn == nil || len(v.members) <= int(scaleIn.To) {
		return v, false
	}
	if !v.isQuorate() || !slices.ContainsFunc(v.members[:scaleIn.To], etcdcluster.Member.IsHealthy) {
		v.members = slices.DeleteFunc(v.members, func(m etcdcluster.Member) bool { return isRemoved(v.o, m) })

		return v, true
	}
	if v.o.State.Inconsistency != nil && !hasRemovedMembers(v.etcd, v.o) {
		return v, true
	}
	for _, member := range v.members[scaleIn.To:] {
		if member.Listed != nil {
			v.leaving = append(v.leaving, member)
		} else if member.IsHealthy() {
			v.healthy--
		}
	}
	v.members = v.members[:scaleIn.To]

	return v, false
}

// isRemoved is true for a member that a scale-in has removed: it leaves, and is not among the recorded voting members.
func isRemoved(o etcdcluster.Observation, m etcdcluster.Member) bool {
	scaleIn, recorded := o.State.ScaleIn, o.State.Evidence
	isLeaving := scaleIn != nil && scaleIn.Removing && m.Ordinal >= int(scaleIn.To) && m.Listed == nil

	return isLeaving && recorded != nil && len(recorded.Voters) > 0 && !slices.ContainsFunc(recorded.Voters, func(voter state.Voter) bool { return isMember(voter, m) })
}

// scaleInToRecord returns the scale-in that is under way. While it is paused, the kubelet restores the configuration, and nodes send new
// connections to the members that leave. Afterwards, both begin again.
func scaleInToRecord(o etcdcluster.Observation, isPaused bool, now time.Time) *state.ScaleIn {
	recorded := o.State.ScaleIn
	if recorded == nil || isPaused == recorded.Since.IsZero() {
		return recorded
	}
	changed := *recorded
	changed.Since, changed.ReadyAt = now, time.Time{}
	if isPaused {
		changed.Since = time.Time{}
	}

	return &changed
}

// selectRemaining labels the pods of the members that stay. It is the first rule of a recorded scale-in: the client Service does not select a
// pod that was recreated meanwhile. While the scale-in is paused because of different data, the label has no effect yet.
func selectRemaining(v view, p plan.Plan) (plan.Plan, bool) {
	if v.o.State.ScaleIn == nil || p.IsScaleInPaused && v.o.State.Inconsistency == nil {
		return p, false
	}

	return selectPods(v, p, v.o.State.ScaleIn.To)
}

// selectPods labels the pods of the first members. The value of the label differs from that of an earlier scale-in.
func selectPods(v view, p plan.Plan, to int32) (plan.Plan, bool) {
	for _, member := range v.members[:min(len(v.members), int(to))] {
		if pod := member.Pod; pod != nil && !pod.Deleting && pod.SelectedFor != strconv.Itoa(int(to)) {
			p.Stage = plan.StageScaleIn
			p.Reason = fmt.Sprintf("%s; while members are removed, the client Service selects only pods with a label", v.quorumStatus())
			p.Step = plan.SelectPod{Meta: plan.Meta{Object: pod.Name, UID: pod.UID}, Remaining: to}

			return p, true
		}
	}

	return p, false
}

// takeScaleInBack ends a scale-in that has removed no member, and that the spec does not request any more. It waits for nothing: the members that leave
// have to recover like the others.
func takeScaleInBack(v view, p plan.Plan) (plan.Plan, bool) {
	if recorded := v.o.State.ScaleIn; recorded == nil || v.etcd.Spec.Replicas <= recorded.To || hasRemovedMembers(v.etcd, v.o) {
		return p, false
	}
	p.Stage, p.ScaleIn = plan.StageScaleIn, nil
	p.Reason = fmt.Sprintf("%s; spec.replicas is %d again, and no member was removed", v.quorumStatus(), v.etcd.Spec.Replicas)

	return p, true
}

// completeScaleIn continues a scale-in that has removed members, before outdated pods are replaced. The pods of removed members are not ready,
// so that the PodDisruptionBudget allows no eviction until they are gone.
func completeScaleIn(v view, p plan.Plan) (plan.Plan, bool) {
	if v.o.State.ScaleIn == nil || p.IsScaleInPaused || !v.isMemberListKnown() || !mayContinueScaleIn(v) {
		return p, false
	}
	continued := continueScaleIn(v, p)
	if len(v.leaving) > 0 && !hasRemovedMembers(v.etcd, v.o) && continued.Step == nil && continued.ScaleIn == p.ScaleIn {
		return p, false // what it waits for may need the rules after this one, for example another Secret of the store
	}

	return continued, true
}

// mayContinueScaleIn is true if the next member may be removed, or no member that leaves is listed and the others have recovered. A healthy member is
// removed only if all that stay have recovered. One that is not healthy is removed without a delay, also as the first one. It does not start again
// without advertised URLs, and while it votes no other member can join. The removal of one of an even number of voting members costs no tolerance. The pods of
// the members that stay then need not be ready: some may become ready only after a restart.
func mayContinueScaleIn(v view) bool {
	isMissing := func(m etcdcluster.Member) bool { return awaitedOf(v, m) != "" }
	isNeeded := func(m etcdcluster.Member) bool { return isMissing(m) && (v.size%2 > 0 || !isVotingUnready(m)) }
	hasBegun := hasRemovedMembers(v.etcd, v.o) || v.size%2 == 0 && slices.ContainsFunc(v.members, isVotingUnready)
	switch {
	case slices.ContainsFunc(v.leaving, isDeadWeight):
		return true
	case len(v.leaving) == 0:
		return hasBegun || !slices.ContainsFunc(v.members, isMissing)
	default:
		return hasBegun && !slices.ContainsFunc(v.members, isNeeded)
	}
}

// isDeadWeight is true for a listed member whose removal costs no tolerance: a learner, or a member that is not healthy.
func isDeadWeight(m etcdcluster.Member) bool { return m.Listed.Learner || !m.IsHealthy() }

// scaleIn begins or continues a scale-in. All members that stay are healthy.
func scaleIn(v view, p plan.Plan) (plan.Plan, bool) {
	switch {
	case p.IsScaleInPaused && v.etcd.Spec.Replicas <= v.o.State.ScaleIn.To:
		p.Stage, p.Reason = plan.StageScaleIn, v.quorumStatus()+"; no member is removed yet"
		p.WaitsFor = awaitedBeforeRemoval(v)

		return p, true
	case v.o.State.ScaleIn != nil:
		return continueScaleIn(v, p), true
	}
	if to := v.etcd.Spec.Replicas; to < max(int32(len(v.members)), v.o.State.Size) { // #nosec G115 -- a handful of members
		return beginScaleIn(v, p, to), true
	}

	return p, false
}

// beginScaleIn prepares a scale-in. Until it is recorded, the author of the spec can take it back without any effect.
func beginScaleIn(v view, p plan.Plan, to int32) plan.Plan {
	p.Stage = plan.StageScaleIn
	p.Reason = fmt.Sprintf("%s; the cluster is scaled in to %d, which leaves a quorum of %d", v.quorumStatus(), to, etcdcluster.QuorumOf(int(to)))
	if int(to) >= len(v.members) {
		p.ScaleIn = &state.ScaleIn{To: to, Since: v.now} // a scale-up ends at a smaller size, and no member leaves

		return p
	}
	if awaited := awaitedBeforeScaleIn(v); awaited != "" {
		p.WaitsFor = awaited

		return p
	}
	if moved, is := replaceUnreadyLeader(v, p, v.members[to:], v.members[:to]); is {
		return moved
	}
	if before, waits := snapshotBeforeRemoval(v, p); waits {
		before.Render = !holdsRest(v.o.SnapshotAttempts, before)

		return before
	}
	if labeled, is := selectPods(v, p, to); is {
		return labeled
	}
	p.ScaleIn = &state.ScaleIn{To: to, Since: v.now}

	return p
}

// abandonLeaving begins a scale-in without waiting for members that leave and are not healthy. Such a member may be unable to start, for example
// because its volume cannot be provisioned, or its node is lost. Its removal costs no tolerance and no data. It comes before the replacement of outdated
// pods, which waits for all members. While any member that leaves votes, a change of peer URLs and the removal of a joined cluster come first. They need
// the rules after this one, which may repair the member.
func abandonLeaving(v view, p plan.Plan) (plan.Plan, bool) {
	to := int(v.etcd.Spec.Replicas)
	if v.o.State.ScaleIn != nil || to < 1 || to >= len(v.members) || !v.isMemberListKnown() {
		return p, false
	}
	isMissing := func(m etcdcluster.Member) bool { return awaitedOf(v, m) != "" }
	anyVotes := slices.ContainsFunc(v.members[to:], func(m etcdcluster.Member) bool { return m.Listed != nil && !m.Listed.Learner })
	isOtherFirst := v.o.PeerChangePending || len(etcdcluster.LeavingExisting(v.etcd)) > 0
	switch {
	case !slices.ContainsFunc(v.members[to:], isMissing), slices.ContainsFunc(v.members[:to], isMissing), anyVotes && isOtherFirst:
		return p, false
	case anyVotes:
		begun := beginScaleIn(v, p, v.etcd.Spec.Replicas)

		return begun, begun.Step != nil || begun.ScaleIn != nil // what it waits for may need the rules after this one
	}
	if labeled, is := selectPods(v, p, v.etcd.Spec.Replicas); is {
		return labeled, true // the client Service selects no pod without the label
	}
	p.Stage, p.ScaleIn = plan.StageScaleIn, &state.ScaleIn{To: v.etcd.Spec.Replicas, Since: v.now}
	p.Reason = fmt.Sprintf("%s; the members from %s on do not vote, and they do not join any more", v.quorumStatus(), v.members[to].Name)

	return p, true
}

// snapshotBeforeRemoval returns the plan that takes a full snapshot, or waits for it. False: there is one, or there is no store.
func snapshotBeforeRemoval(v view, p plan.Plan) (plan.Plan, bool) {
	if !helper.IsStoreConfigured(v.etcd) {
		return p, false
	}
	snapshot, before := finalSnapshot(v.etcd, v.o, v.now, p)
	before.Reason += ", after a full snapshot"

	return before, snapshot == nil
}

// awaitedBeforeScaleIn is what has to be true before a scale-in begins, and again before the first removal, in addition to what scaleIn needs.
// Empty: all of it is.
func awaitedBeforeScaleIn(v view) string {
	if awaited := awaitedBeforeRemoval(v); awaited != "" {
		return awaited
	}
	if v.joined > 0 {
		return fmt.Sprintf("the %d members of the joined cluster to be removed: delete them from spec.etcd.bootstrapWithExistingCluster", v.joined)
	}

	return ""
}

// awaitedBeforeRemoval is what has to be true before any member is removed. Empty: all of it is.
func awaitedBeforeRemoval(v view) string {
	if awaited := awaitedData(v); awaited != "" {
		return awaited
	}
	if v.o.PeerChangePending && v.o.State.ScaleIn == nil { // a member that leaves may have stopped, and does not change them any more
		return "the peer URLs of all members to change"
	}

	return awaitedBeforeReplacement(v)
}

// awaitedData is what has to be true of the data before a member is added or removed. Another vote could give different data the majority. Empty: no
// difference is recorded.
func awaitedData(v view) string {
	if found := v.o.State.Inconsistency; found != nil {
		return "all members to have the same data: " + consistency.Describe(*found)
	}

	return ""
}

// awaitedBeforeReplacement is what has to be true before a member is replaced that has other data than a quorum. Empty: all of it is.
func awaitedBeforeReplacement(v view) string {
	switch {
	case WaitsForAcceptance(v.etcd, v.o):
		return acceptHint(v.o)
	case v.o.Defragmentation != "":
		return "EtcdOpsTask " + v.o.Defragmentation + " to end"
	default:
		return ""
	}
}

// continueScaleIn decides the next step of a recorded scale-in.
func continueScaleIn(v view, p plan.Plan) plan.Plan {
	recorded := v.o.State.ScaleIn
	leaving := leavingMembers(v.etcd, v.o, recorded.To)
	p.Stage, p.PollMembers = plan.StageScaleIn, true
	if member := nextToRemove(leaving); member != nil {
		return removeMember(v, p, *member)
	}
	p.Reason = fmt.Sprintf("%s; the removed members stop, and their volumes are deleted", v.quorumStatus())
	for _, claim := range v.o.Claims {
		if claim.Ordinal >= int(recorded.To) && claim.Exists && !claim.Deleting {
			p.Step = plan.DeleteClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}, IsRemoved: true}

			return p
		}
	}

	return stopRemoved(v, p, leaving)
}

// nextToRemove returns the member that is removed next. A learner, and a member that is not healthy, come first: their removal costs no
// tolerance. Otherwise it is the voting member with the highest ordinal. Nil: the member list has none of them.
func nextToRemove(leaving []etcdcluster.Member) *etcdcluster.ListedMember {
	var next *etcdcluster.ListedMember
	for _, member := range leaving {
		if member.Listed == nil {
			continue
		}
		if isDeadWeight(member) {
			return member.Listed
		}
		next = member.Listed
	}

	return next
}

// serviceDelay is the time after which no node sends new connections to a member that leaves. A client that reaches a stopped member waits one
// second before it tries again.
const serviceDelay = 5 * time.Second

// removeMember removes a member that leaves. The kubelet must have the configuration without its URLs, and it must not lead.
func removeMember(v view, p plan.Plan, next etcdcluster.ListedMember) plan.Plan {
	if prepared, waits := prepareRemoval(v, p); waits {
		return prepared
	}
	if !p.ScaleIn.Removing {
		if moved, is := replaceUnreadyLeader(v, p, v.leaving, v.members); is {
			return moved
		}
		if before, waits := waitBeforeRemoval(v, p); waits {
			return before
		}
		recorded := *p.ScaleIn
		recorded.Removing = true
		p.ScaleIn = &recorded
	}
	isUnhealthy := slices.ContainsFunc(v.leaving, func(m etcdcluster.Member) bool { return m.Listed.ID == next.ID && isDeadWeight(m) })
	if !isUnhealthy && v.leader() == nil { // the leader is none of the members that stay
		return moveLeaderBeforeRemoval(v, p)
	}
	after := v.size - 1
	if next.Learner {
		after = v.size
	}
	p.Reason = fmt.Sprintf("%s by a quorum read; removing %s leaves %d voting members with a quorum of %d: allowed", v.quorumStatus(), memberName(next), after, etcdcluster.QuorumOf(after))
	step := plan.RemoveMember{Meta: plan.Meta{Object: v.o.StatefulSet.Name, UID: v.o.StatefulSet.UID}, Member: next.ID, Name: memberName(next)}
	if !helper.IsStoreConfigured(v.etcd) && !hasRemovedMembers(v.etcd, v.o) && !next.Learner {
		step.Compare = healthyPods(slices.Concat(v.members, v.leaving))
	}
	p.Step = step

	return p
}

// replaceUnreadyLeader transfers the leadership from a member that leaves and whose pod is not ready to a member that stays. The sidecar of the leader
// takes the snapshot.
func replaceUnreadyLeader(v view, p plan.Plan, leaving, staying []etcdcluster.Member) (plan.Plan, bool) {
	from := slices.IndexFunc(leaving, func(m etcdcluster.Member) bool {
		return m.Pod != nil && !m.Pod.Ready && m.Endpoint != nil && m.Endpoint.Reachable && m.Endpoint.IsLeader()
	})
	to := slices.IndexFunc(staying, func(m etcdcluster.Member) bool { return mayLead(m) && m.Pod != nil && m.Pod.Ready })
	if from < 0 || to < 0 || v.o.Defragmentation != "" || !helper.IsStoreConfigured(v.etcd) {
		return p, false
	}
	leader := leaving[from]
	p.Reason = fmt.Sprintf("%s; the sidecar of leader %s takes no snapshot before %s is ready", v.quorumStatus(), leader.Name, leader.Pod.Name)
	p.Step = plan.MoveLeader{Meta: plan.Meta{Object: leader.Pod.Name, UID: leader.Pod.UID}, To: staying[to].ID(), ToName: staying[to].Name}

	return p, true
}

// healthyPods returns the UIDs of the pods of the healthy members.
func healthyPods(members []etcdcluster.Member) []types.UID {
	var uids []types.UID
	for _, member := range members {
		if member.IsHealthy() && member.Pod != nil {
			uids = append(uids, member.Pod.UID)
		}
	}

	return uids
}

// prepareRemoval returns the plan that waits until no removed member can add a learner. It also waits until no node sends new connections to a
// member that leaves. False: the preparation is complete.
func prepareRemoval(v view, p plan.Plan) (plan.Plan, bool) {
	recorded := *p.ScaleIn
	if recorded.ReadyAt.IsZero() {
		if refreshed, is := refreshLeaving(v, p); is {
			return refreshed, true
		}
		recorded.ReadyAt = v.now
		p.ScaleIn = &recorded
	}
	if ready := recorded.ReadyAt.Add(serviceDelay); v.now.Before(ready) {
		p.Reason = fmt.Sprintf("%s; %d members are removed", v.quorumStatus(), len(v.leaving))
		p.WaitsFor, p.RequeueAfter = "all nodes to send new connections only to the members that stay", ready.Sub(v.now)

		return p, true
	}

	return p, false
}

// refreshLeaving lets the kubelet update the configuration in the next pod that leaves. False: it has done so in all of them.
func refreshLeaving(v view, p plan.Plan) (plan.Plan, bool) {
	// The rendering is the same after a pause, and the value of the annotation must change for the kubelet.
	rendering := v.o.StatefulSet.Rendering.Checksum + "-" + strconv.FormatInt(p.ScaleIn.Since.Unix(), 10)
	for _, pod := range v.o.Pods {
		if pod.Ordinal >= int(p.ScaleIn.To) && !pod.Deleting && pod.Refreshed != rendering {
			p.Reason = fmt.Sprintf("%s; the kubelet updates the configuration, with which the sidecar of a removed member adds no learner", v.quorumStatus())
			p.Step = plan.RefreshPod{Meta: plan.Meta{Object: pod.Name, UID: pod.UID}, Rendering: rendering}

			return p, true
		}
	}

	return p, false
}

// waitBeforeRemoval returns the plan that waits before the first removal. False: nothing is left to wait for.
func waitBeforeRemoval(v view, p plan.Plan) (plan.Plan, bool) {
	p.Reason = fmt.Sprintf("%s; %d members are removed", v.quorumStatus(), len(v.leaving))
	if p.WaitsFor = awaitedBeforeScaleIn(v); p.WaitsFor != "" {
		return p, true
	}

	return snapshotBeforeRemoval(v, p)
}

// podSizeOf returns the size for which the template of the only pod is rendered after a scale-in to one member, see State.PodSize. The pod is
// not restarted for a scale-in. If it restarts for another reason, or if members join again, it gets the template of a single member. Its
// sidecar may have read a configuration of one member. It restores no corrupt data, because it was started in a larger cluster. The pod is therefore
// replaced if it cannot start. 1: the pod is to be replaced. 0: there was no scale-in, or the pod is replaced.
func podSizeOf(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) int32 {
	recorded, pod := o.State.PodSize, o.PodFor(0)
	switch {
	case etcdcluster.RenderedReplicas(o) > 1 || o.State.Size > 1:
		return 0 // another operator has added members
	case recorded == 0 || pod == nil || pod.Deleting:
		return recorded
	case !pod.HasPreStopHook:
		return 0
	case etcd.Spec.Replicas > 1 || pod.IsOutdated(o.StatefulSet) || cannotStart(*pod, now):
		return 1
	default:
		return recorded
	}
}

// memberName is the name of a listed member. A learner that never ran has none.
func memberName(listed etcdcluster.ListedMember) string {
	if listed.Name == "" {
		return etcdcluster.FormatID(listed.ID)
	}

	return listed.Name
}

// moveLeaderBeforeRemoval transfers the leadership to a member that stays: the removal of a leader costs an election.
func moveLeaderBeforeRemoval(v view, p plan.Plan) plan.Plan {
	p.Reason = v.quorumStatus() + "; a member that leaves must not lead"
	for _, pod := range v.o.Pods {
		to := slices.IndexFunc(v.members, func(m etcdcluster.Member) bool { return mayLead(m) && m.Listed != nil && !m.Listed.Learner })
		if endpoint := v.o.Etcd.Endpoint(pod.Ordinal); endpoint != nil && endpoint.Reachable && endpoint.IsLeader() && to >= 0 {
			to := v.members[to]
			p.Step = plan.MoveLeader{Meta: plan.Meta{Object: pod.Name, UID: pod.UID}, To: to.ID(), ToName: to.Name}

			return p
		}
	}
	p.WaitsFor = "a leader, and a healthy member that stays"

	return p
}

// leftFrom describes that the pods and the claims from this ordinal on are to be gone. Empty: they are.
func leftFrom(v view, ordinal int) string {
	var left, hints []string
	for _, pod := range v.o.Pods {
		if pod.Ordinal >= ordinal {
			left = append(left, "pod "+pod.Name)
		}
		if hint := deletionHint(pod, v.now); pod.Ordinal >= ordinal && hint != "" {
			hints = append(hints, strings.TrimPrefix(hint, ": "))
		}
	}
	for _, claim := range v.o.Claims {
		if claim.Ordinal >= ordinal && claim.Exists {
			left = append(left, "claim "+claim.Name)
		}
	}

	if len(left) == 0 {
		return ""
	}

	return strings.Join(append([]string{strings.Join(left, " and ") + " to be gone"}, hints...), "; ")
}

// stopRemoved stops the pods of the removed members, deletes their Leases, and ends the scale-in when nothing is left of them.
func stopRemoved(v view, p plan.Plan, leaving []etcdcluster.Member) plan.Plan {
	recorded := v.o.State.ScaleIn
	p.Replicas = recorded.To
	if left := leftFrom(v, int(recorded.To)); left != "" {
		p.WaitsFor = left

		return p
	}
	for _, member := range leaving {
		if lease := member.Lease; lease != nil {
			p.Reason = fmt.Sprintf("%s; the Leases of the removed members are deleted", v.quorumStatus())
			p.Step = plan.ResetLease{Meta: plan.Meta{Object: lease.Name, UID: lease.UID}}

			return p
		}
	}
	// The next rendering is the first one without the removed members.
	p.ScaleIn, p.ClusterSize = nil, recorded.To
	p.Reason = fmt.Sprintf("%s; the scale-in to %d is complete", v.quorumStatus(), recorded.To)
	if recorded.To == 1 {
		p.PodSize = v.o.State.Size
	}

	return p
}
