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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// A user removes members of the joined cluster when they are not needed any more: the status has them, and the spec does not. The removal has
// these steps. Each of them is complete when an observation shows its effect.
//
//  1. All members of the Etcd are healthy voting members and run the latest rendered manifests.
//  2. The leadership moves to a member of the Etcd. The sidecar of the leader takes a full snapshot, which is verified. Without a store, the
//     members of the Etcd have the same data.
//  3. It is recorded that members are removed.
//  4. The members are removed, one after the other, each after a quorum read. The leader is the last one, if it cannot be reached.
//  5. The sidecar of a removed member may add it again as a learner. Such a learner is removed too.
//  6. If the member list has had none of the members for existingQuietPeriod, the status is updated. The manifests are then rendered without
//     them, which is a rolling update.
//
// Until then, etcdcluster.ExistingCluster returns all members and the previous client endpoints for the configuration. A user who puts the
// members back into the spec ends the removal. Members that were not removed stay.

// existingQuietPeriod is how long the member list must have none of the removed members. A sidecar that requests a learner when its member
// is removed needs less.
const existingQuietPeriod = 30 * time.Second

// ExistingToPersist returns what is recorded about the joined cluster with the rendering of a plan. The Observation is the one that the plan was
// made for.
func ExistingToPersist(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *state.Existing {
	bootstrap := etcdcluster.ExistingCluster(etcd, o.State)
	switch {
	case bootstrap == nil:
		return nil
	case len(etcdcluster.LeavingExisting(etcd)) == 0 || o.State.Restore != state.RestoreNone:
		return &state.Existing{ClientEndpoints: bootstrap.ClientEndpoints}
	case p.Existing != nil:
		return p.Existing
	case o.State.Existing == nil:
		return &state.Existing{ClientEndpoints: bootstrap.ClientEndpoints}
	default:
		return o.State.Existing
	}
}

// HasRemovedExisting is true when the members of the joined cluster that the spec does not name are removed for good. It is also true during a
// restore, because the restored cluster has none of them.
func HasRemovedExisting(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) bool {
	recorded := o.State.Existing
	switch {
	case len(etcdcluster.LeavingExisting(etcd)) == 0:
		return false
	case o.State.Restore != state.RestoreNone:
		return true
	default:
		return recorded != nil && !recorded.RemovedAt.IsZero() && now.Sub(recorded.RemovedAt) >= existingQuietPeriod &&
			len(o.Etcd.MemberList) > 0 && len(etcdcluster.ListedLeaving(etcd, o)) == 0
	}
}

// isRemovingExisting is true if a member of the joined cluster may have been removed, and others are still to be removed. A hibernation waits then.
func isRemovingExisting(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	recorded := o.State.Existing

	return recorded != nil && recorded.Voters > 0 && recorded.RemovedAt.IsZero() && len(etcdcluster.ListedLeaving(etcd, o)) > 0
}

// completeExistingRemoval continues a removal that has begun, before outdated pods are replaced. The number of voting members may be even, or a learner
// keeps out a member of the Etcd. Such a learner is removed also before the removal begins, which waits for that member. Other learners do not delay the
// replacement: a sidecar may add them again and again.
func completeExistingRemoval(v view, p plan.Plan) (plan.Plan, bool) {
	leaving := etcdcluster.ListedLeaving(v.etcd, v.o)
	isLearner := func(m etcdcluster.ListedMember) bool { return m.Learner }
	if learner := slices.IndexFunc(leaving, isLearner); learner >= 0 && v.isAnyKeptOut() && v.isMemberListKnown() {
		p.Stage, p.PollMembers = plan.StageScaleIn, true

		return removeOneOfExisting(v, p, leaving[learner], v.recordedExisting()), true
	}
	hasVoter := slices.ContainsFunc(leaving, func(m etcdcluster.ListedMember) bool { return !m.Learner })
	if !isRemovingExisting(v.etcd, v.o) || !hasVoter {
		return p, false
	}
	continued, is := removeExisting(v, p)

	return continued, is && continued.Step != nil
}

// removeExisting removes the members of the joined cluster that the spec does not name any more. Voting members are removed only while all members
// of the Etcd are healthy.
func removeExisting(v view, p plan.Plan) (plan.Plan, bool) {
	if len(etcdcluster.LeavingExisting(v.etcd)) == 0 || v.isScalingUp() || !v.isMemberListKnown() {
		return p, false
	}
	p.Stage, p.PollMembers = plan.StageScaleIn, true
	leaving, recorded := etcdcluster.ListedLeaving(v.etcd, v.o), v.recordedExisting()
	if len(leaving) == 0 {
		return endExistingRemoval(v, p, recorded), true
	}
	if recorded.Voters == 0 {
		before, waits := waitBeforeExistingRemoval(v, p, leaving)
		if !waits {
			recorded.Voters = v.size
			before.Existing, before.WaitsFor, before.RequeueAfter = &recorded, "the status to report the removal", time.Second
		}

		return before, true
	}
	next := nextExistingToRemove(v, leaving)
	if !next.Learner {
		if slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return awaitedOf(v, m) != "" }) {
			return p, false // the rules after this one repair it, or wait for it
		}
		if moved, is := moveLeaderOfExisting(v, p); is {
			return moved, true
		}
	}

	return removeOneOfExisting(v, p, next, recorded), true
}

// isAnyKeptOut is true if the member list lacks a member of the Etcd. It cannot join next to another learner.
func (v view) isAnyKeptOut() bool {
	return slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return m.Listed == nil })
}

// recordedExisting returns the record of the joined cluster. Nothing is recorded of a cluster that joined under etcd-druid.
func (v view) recordedExisting() state.Existing {
	if v.o.State.Existing != nil {
		return *v.o.State.Existing
	}

	return state.Existing{ClientEndpoints: etcdcluster.ExistingCluster(v.etcd, v.o.State).ClientEndpoints}
}

// waitBeforeExistingRemoval returns the plan that waits before the first removal. False: nothing is left to wait for. The members that a scale-in removes
// next do not count: it waits for this removal.
func waitBeforeExistingRemoval(v view, p plan.Plan, leaving []etcdcluster.ListedMember) (plan.Plan, bool) {
	voters := 0
	for _, listed := range leaving {
		if !listed.Learner {
			voters++
		}
	}
	left := v.size - voters
	p.Reason = fmt.Sprintf("%s; %s of the joined cluster are removed, which leaves %d voting members with a quorum of %d",
		v.quorumStatus(), listedNames(leaving), left, etcdcluster.QuorumOf(left))
	for _, member := range slices.Concat(v.members, v.leaving) {
		if member.Ordinal >= int(v.etcd.Spec.Replicas) && member.Listed != nil && !member.Listed.Learner {
			left--
		}
	}
	switch {
	case left%2 == 0 && left == int(v.etcd.Spec.Replicas):
		p.WaitsFor = fmt.Sprintf("spec.replicas to be %d: %d voting members tolerate no more failures than %d", left+1, left, left-1)
	case left%2 == 0:
		p.WaitsFor = fmt.Sprintf("one member more or one member less in spec.etcd.bootstrapWithExistingCluster.members: %d voting members tolerate no more failures than %d", left, left-1)
	default:
		p.WaitsFor = awaitedBeforeRemoval(v)
	}
	if p.WaitsFor != "" {
		return p, true
	}
	if moved, waits := moveLeaderBeforeSnapshot(v, p); waits {
		return moved, true
	}
	if before, waits := snapshotBeforeRemoval(v, p); waits {
		before.Render = !holdsRest(v.o.SnapshotAttempts, before)

		return before, true
	}

	return p, false
}

// moveLeaderBeforeSnapshot transfers the leadership to a member of the Etcd. Only the sidecar of the leader takes snapshots, and a member of the
// joined cluster has another store, or none. False: a member of the Etcd leads, or no snapshot is taken.
func moveLeaderBeforeSnapshot(v view, p plan.Plan) (plan.Plan, bool) {
	isSkipped := metav1.HasAnnotation(v.etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation)
	if !helper.IsStoreConfigured(v.etcd) || isSkipped || v.leader() != nil {
		return p, false
	}
	if moved, is := moveLeaderOfExisting(v, p); is {
		return moved, true
	}
	p.WaitsFor = fmt.Sprintf("a member of the Etcd to lead, because its sidecar takes the full snapshot: make the client URLs of the joined cluster reachable for the operator, use etcdctl move-leader, or set the annotation %s",
		druidv1alpha1.SkipFinalSnapshotAnnotation)

	return p, true
}

// nextExistingToRemove returns the member that is removed next. A voting member that is not known to be healthy comes first, because its removal
// costs the least tolerance. The leader comes after the followers, and learners come last: a removal of voting members does not wait for them.
func nextExistingToRemove(v view, leaving []etcdcluster.ListedMember) etcdcluster.ListedMember {
	rank := func(m etcdcluster.ListedMember) int {
		switch {
		case m.Learner:
			return 3
		case v.leaderID() == m.ID:
			return 2
		case isExistingHealthy(v.o.Etcd, m.ID):
			return 1
		default:
			return 0
		}
	}

	return slices.MinFunc(leaving, func(a, b etcdcluster.ListedMember) int { return rank(a) - rank(b) })
}

// leaderID is the ID of the leader as a healthy member of the Etcd reports it. 0: no member reports it.
func (v view) leaderID() uint64 {
	for _, member := range v.members {
		if member.IsHealthy() && member.Endpoint != nil && member.Endpoint.Reachable {
			return member.Endpoint.LeaderID
		}
	}

	return 0
}

// moveLeaderOfExisting transfers the leadership from a member of the joined cluster to a member of the Etcd: the removal of a leader costs an
// election. False: a member of the Etcd leads, or the leader cannot be reached.
func moveLeaderOfExisting(v view, p plan.Plan) (plan.Plan, bool) {
	at := slices.IndexFunc(v.o.Etcd.Existing, func(e etcdcluster.EndpointStatus) bool { return e.IsLeader() && e.MemberID == v.leaderID() })
	if at < 0 {
		return p, false
	}
	to := v.members[0]
	p.Reason = fmt.Sprintf("%s; a member that is removed must not lead, and %s becomes the leader", v.quorumStatus(), to.Name)
	p.Step = plan.MoveLeader{
		Meta: plan.Meta{Object: v.o.StatefulSet.Name, UID: v.o.StatefulSet.UID}, Endpoint: v.o.Etcd.Existing[at].Endpoint, To: to.ID(), ToName: to.Name,
	}

	return p, true
}

// removeOneOfExisting removes a member if the others keep a quorum. The quiet period begins again after it.
func removeOneOfExisting(v view, p plan.Plan, next etcdcluster.ListedMember, recorded state.Existing) plan.Plan {
	after, survivors := v.size, v.healthy
	if !next.Learner {
		after--
		if isExistingHealthy(v.o.Etcd, next.ID) {
			survivors--
		}
	}
	quorum := etcdcluster.QuorumOf(after)
	p.Reason = fmt.Sprintf("%s by a quorum read; removing %s leaves %d voting members with a quorum of %d", v.quorumStatus(), memberName(next), after, quorum)
	// A quorum read proves that a quorum of members is healthy, although not all of them can be queried.
	if !next.Learner && max(survivors, etcdcluster.QuorumOf(v.size)-1) < quorum {
		p.Reason += ": not allowed"
		p.WaitsFor = "more healthy members: start the stopped members of the joined cluster again, and make their client URLs reachable for the operator"

		return p
	}
	p.Reason += ": allowed"
	recorded.RemovedAt = time.Time{}
	p.Existing = &recorded
	step := plan.RemoveMember{Meta: plan.Meta{Object: v.o.StatefulSet.Name, UID: v.o.StatefulSet.UID}, Member: next.ID, Name: memberName(next)}
	if !helper.IsStoreConfigured(v.etcd) && v.size >= recorded.Voters {
		step.Compare = healthyPods(v.members)
	}
	p.Step = step

	return p
}

// endExistingRemoval waits until no removed member is added again. The status is then updated, see HasRemovedExisting.
func endExistingRemoval(v view, p plan.Plan, recorded state.Existing) plan.Plan {
	if recorded.RemovedAt.IsZero() {
		recorded.RemovedAt = v.now
		p.Existing = &recorded
	}
	until := recorded.RemovedAt.Add(existingQuietPeriod)
	p.Reason = fmt.Sprintf("%s; the members of the joined cluster are removed", v.quorumStatus())
	p.WaitsFor, p.RequeueAfter = "the status to be updated", time.Second
	if v.now.Before(until) {
		p.WaitsFor = fmt.Sprintf("%s: until then, the sidecar of a removed member could add it again as a learner", until.UTC().Format(time.RFC3339))
		p.RequeueAfter = until.Sub(v.now)
	}

	return p
}

// existingHint names the members of the joined cluster if they vote and there is no quorum: etcd removes no member then. Empty: there is no such
// cluster.
func existingHint(v view) string {
	existing := etcdcluster.ExistingCluster(v.etcd, v.o.State)
	if existing == nil || v.etcd.Status.BootstrapWithExistingCluster == nil {
		return ""
	}
	var names []string
	for _, member := range existing.Members {
		names = append(names, member.Name)
	}

	return fmt.Sprintf("; or members of the joined cluster (%s) to start again, because they vote too, and etcd removes no member without a quorum", strings.Join(names, ", "))
}

// listedNames returns the names of listed members as text.
func listedNames(members []etcdcluster.ListedMember) string {
	var names []string
	for _, member := range members {
		names = append(names, memberName(member))
	}

	return strings.Join(names, " and ")
}
