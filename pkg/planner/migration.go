// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// A volume migration replaces the volumes of a multi-member cluster, because the spec requests another StorageClass or a smaller size. It has
// these steps. Each of them is complete when an observation shows its effect.
//
//  1. The rendering with the new claim template is recorded together with the migration, and the StatefulSet is recreated. Its pods keep running.
//  2. All members are healthy voting members and run the latest rendered manifests. A full snapshot is verified. Without a store, the data of
//     all members is compared before each removal.
//  3. An extra member joins with the next ordinal, as in a scale-up. If its volume cannot be provisioned, no other volume is touched.
//  4. The members with other volumes are replaced one after the other, the leader last. The claim of the member is recorded. The leadership moves
//     to another member. The client Service does not select the pod of the member any more. The member is removed from etcd. Its claim and its pod are
//     deleted. It joins again as a learner with a new volume, and is promoted.
//  5. The extra member is removed, as in a scale-in.
//
// With the extra member, one more member can fail at all times: n+1 of n+1 members vote, or n of n while one joins again. While the migration is
// active, withLastSize adds the extra member to the size of the spec. All other rules handle it as every other member.

// migrationToRecord returns the migration to record with the next rendering. Nil: there is none.
func migrationToRecord(v view) *state.Migration {
	recorded, cause := v.o.State.Migration, migrationCause(v)
	isScaledIn := v.o.State.ScaleIn == nil && len(v.members) <= int(v.etcd.Spec.Replicas) && v.o.State.Size <= v.etcd.Spec.Replicas
	switch {
	case recorded == nil && cause == "", recorded != nil && recorded.Phase == state.MigrationRequested && cause == "":
		return nil
	case recorded == nil, recorded.Phase == state.MigrationEnd && isScaledIn && cause != "":
		return &state.Migration{Phase: state.MigrationRequested, Since: v.now, Cause: cause}
	case recorded.Phase == state.MigrationEnd && isScaledIn:
		return nil
	case recorded.AddsMember() && recorded.Claim == "" && (cause == "" || len(v.members) > int(v.etcd.Spec.Replicas)):
		return nextMigrationPhase(v, state.MigrationEnd)
	default:
		return recorded
	}
}

// migrationToKeep returns the migration to record with the rendering that starts the members of a hibernated cluster. Nil: there is none.
func migrationToKeep(v view) *state.Migration {
	if v.o.State.Migration != nil {
		return v.o.State.Migration
	}

	return migrationToRecord(v)
}

func nextMigrationPhase(v view, phase state.MigrationPhase) *state.Migration {
	next := *v.o.State.Migration
	next.Phase, next.Since = phase, v.now

	return &next
}

// withMigrating returns the migration with the claim whose member is replaced next. Empty: none is.
func withMigrating(migration state.Migration, claim etcdcluster.Claim) *state.Migration {
	migration.Claim, migration.ReadyAt = claim.UID, time.Time{}

	return &migration
}

// migrationCause returns why the volume of any member has to be replaced, as a part of a sentence. Empty: none has to be.
func migrationCause(v view) string {
	for _, member := range migrating(v) {
		if cause := memberVolumeCause(v, member); cause != "" {
			return cause
		}
	}

	return ""
}

// migrating returns the members whose volumes a migration replaces: all but the extra member.
func migrating(v view) []etcdcluster.Member {
	count := int(v.etcd.Spec.Replicas)
	switch {
	case v.o.State.Migration.AddsMember():
		count--
	case !v.o.State.Migration.IsActive():
		count = len(v.members)
	}

	return v.members[:min(count, len(v.members))]
}

// memberVolumeCause returns why the volume of a member has to be replaced, as a part of a sentence. Empty: it does not have to.
func memberVolumeCause(v view, m etcdcluster.Member) string {
	claim := v.o.ClaimFor(m.Ordinal)
	if claim == nil {
		return ""
	}

	return volumeCause("the volume of "+m.Name, v.etcd, v.o, *claim)
}

// migrateVolumes begins a migration, and selects the member that is replaced next. It is the last rule: all members have recovered, and the extra
// member votes.
func migrateVolumes(v view, p plan.Plan) (plan.Plan, bool) {
	recorded := v.o.State.Migration
	if p.Migration == nil && recorded == nil {
		return p, false
	}
	p.Stage, p.PollMembers = plan.StageMigrateVolumes, true
	switch {
	case p.Migration == nil:
		p.Reason, p.WaitsFor = v.quorumStatus()+"; all volumes are as requested", "this to be recorded"

		return p, true
	case recorded == nil || recorded.Phase != p.Migration.Phase:
		p.Reason, p.WaitsFor = fmt.Sprintf("%s; the phase of the volume migration is %s", v.quorumStatus(), p.Migration.Phase), "this to be recorded"

		return p, true
	case recorded.Phase == state.MigrationRequested:
		return beginMigration(v, p), true
	case recorded.Phase == state.MigrationReplace:
		return selectMigrating(v, p)
	default:
		return p, false
	}
}

// beginMigration records that an extra member joins. Until then, the author of the spec can take the change back without any effect.
func beginMigration(v view, p plan.Plan) plan.Plan {
	n := len(v.members)
	p.Reason = fmt.Sprintf("%s; %d of %d volumes are replaced, one after the other, because %s; an extra member joins first, so that %d of them can fail at all times",
		v.quorumStatus(), countMigrating(v), n, p.Migration.Cause, n-etcdcluster.QuorumOf(n))
	if p.WaitsFor = awaitedBeforeScaleIn(v); p.WaitsFor != "" {
		return p
	}
	if claim := v.o.ClaimFor(n); claim != nil && claim.Exists {
		p.WaitsFor = fmt.Sprintf("claim %s of an earlier member to be deleted: the extra member would use its volume", claim.Name)

		return p
	}
	if before, waits := snapshotBeforeRemoval(v, p); waits {
		before.Render = !holdsRest(v.o.SnapshotAttempts, before)

		return before
	}
	p.Migration, p.WaitsFor = nextMigrationPhase(v, state.MigrationReplace), "this to be recorded"

	return p
}

// countMigrating returns the number of members whose volumes have to be replaced.
func countMigrating(v view) int {
	count := 0
	for _, member := range migrating(v) {
		if memberVolumeCause(v, member) != "" {
			count++
		}
	}

	return count
}

// selectMigrating records the claim of the member that is replaced next: a follower, or the leader if no other is left.
func selectMigrating(v view, p plan.Plan) (plan.Plan, bool) {
	next := -1
	for i, member := range migrating(v) {
		if memberVolumeCause(v, member) != "" && (next < 0 || v.members[next].Endpoint.IsLeader()) {
			next = i
		}
	}
	if next < 0 {
		return p, false
	}
	member := v.members[next]
	p.Reason = fmt.Sprintf("%s; %s is replaced next, because %s", v.quorumStatus(), member.Name, memberVolumeCause(v, member))
	if p.WaitsFor = awaitedBeforeRemoval(v); p.WaitsFor == "" {
		p.Migration, p.WaitsFor = withMigrating(*p.Migration, *v.o.ClaimFor(member.Ordinal)), "this to be recorded"
	}

	return p, true
}

// migrateVolume replaces the member of the recorded claim. It comes before the rules that wait for members and promote them: the removed member must
// not vote again with its old volume.
func migrateVolume(v view, p plan.Plan) (plan.Plan, bool) {
	if p.Migration == nil || p.Migration.Claim == "" || !v.isMemberListKnown() {
		return p, false
	}
	p.Stage, p.PollMembers = plan.StageMigrateVolumes, true
	index := slices.IndexFunc(v.o.Claims, func(c etcdcluster.Claim) bool { return c.Exists && c.UID == p.Migration.Claim })
	if index < 0 {
		p.Reason = v.quorumStatus() + "; a member joins again with a new volume"
		p.Migration, p.WaitsFor = withMigrating(*p.Migration, etcdcluster.Claim{}), "this to be recorded"

		return p, true
	}
	claim := v.o.Claims[index]
	position := slices.IndexFunc(v.members, func(m etcdcluster.Member) bool { return m.Ordinal == claim.Ordinal })
	if position < 0 {
		return p, false
	}
	member := v.members[position]
	if member.Listed != nil && !member.Listed.Learner {
		return removeMigrating(v, p, member, claim)
	}
	discarded := holdDiscard(v.etcd, v.o, discardMigrating(v, p, member, claim))
	if discarded.Step == nil {
		others := v
		others.members = slices.Delete(slices.Clone(v.members), position, position+1)
		if decided, is := firstDecision(others, p, replaceLostVolumes, promoteLearner, replaceLearner); is {
			return decided, true // the pod may be on an unreachable node for long, and another member may fail meanwhile
		}
	}

	return discarded, true
}

// removeMigrating removes the member of the recorded claim from etcd. All members are healthy, so that the others tolerate a failure. It removes the
// member again if its sidecar has promoted it while its claim was being deleted.
func removeMigrating(v view, p plan.Plan, m etcdcluster.Member, claim etcdcluster.Claim) (plan.Plan, bool) {
	if _, isHeld := holdPeers(v, p); isHeld || !areOthersVoting(v, m) || awaitedOf(v, m) != "" {
		return p, false
	}
	p.Reason = fmt.Sprintf("%s; %s is replaced next", v.quorumStatus(), m.Name)
	switch awaited := awaitedBeforeMigrating(v, m, claim); {
	case memberVolumeCause(v, m) == "" && !claim.Deleting:
		p.Reason = fmt.Sprintf("%s; the volume of %s is as requested again, and it was not removed", v.quorumStatus(), m.Name)
		p.Migration, p.WaitsFor = withMigrating(*p.Migration, etcdcluster.Claim{}), "this to be recorded"
	case m.Endpoint != nil && m.Endpoint.IsLeader() && v.o.State.Inconsistency == nil && v.o.Defragmentation == "":
		p = moveLeaderOfMigrating(v, p, m)
	case awaited != "":
		p.WaitsFor = awaited
	default:
		p = removeExcluded(v, p, m)
	}

	return p, true
}

// isExcluded is true for a member whose pod the client Service does not select.
func isExcluded(m etcdcluster.Member) bool { return m.Pod != nil && m.Pod.Excluded && !m.Pod.Deleting }

// areOthersVoting is true if all other members are healthy voting members and have recovered, and if they are as many as the spec requests.
func areOthersVoting(v view, m etcdcluster.Member) bool {
	isMissing := func(other etcdcluster.Member) bool { return other.Ordinal != m.Ordinal && awaitedOf(v, other) != "" }
	others := v.healthy
	if isVoting(m) {
		others--
	}

	return !slices.ContainsFunc(v.members, isMissing) && others >= v.size-1 && v.size >= int(v.etcd.Spec.Replicas)
}

// awaitedBeforeMigrating is what has to be true before the member of the recorded claim is removed, if all other members vote. Empty: all of it is.
func awaitedBeforeMigrating(v view, m etcdcluster.Member, claim etcdcluster.Claim) string {
	leader := v.leader()
	switch awaited := awaitedBeforeRemoval(v); {
	case memberVolumeCause(v, m) == "" && !claim.Deleting:
		return "another volume to be requested"
	case awaited != "":
		return awaited
	case leader == nil || leader.Ordinal == m.Ordinal:
		return "another member to lead"
	default:
		return ""
	}
}

// isBeingRemoved is true for the member that a volume migration removes now, or that it has removed. Its pod stays excluded from the client Service.
func isBeingRemoved(v view, p plan.Plan, m etcdcluster.Member) bool {
	migration, claim := v.o.State.Migration, v.o.ClaimFor(m.Ordinal)
	if !migration.AddsMember() || claim == nil || !claim.Exists || claim.UID != migration.Claim {
		return false
	}
	_, isHeld := holdPeers(v, p)

	return m.Listed == nil || m.Listed.Learner || !isHeld && areOthersVoting(v, m) && awaitedBeforeMigrating(v, m, *claim) == ""
}

// removeExcluded excludes the pod of a member from the client Service, and removes the member when no node sends new connections to it. Otherwise clients
// would connect to a member that etcd has stopped.
func removeExcluded(v view, p plan.Plan, m etcdcluster.Member) plan.Plan {
	recorded, after := *p.Migration, v.size-1
	switch {
	case !isExcluded(m):
		recorded.ReadyAt = time.Time{}
		p.Migration = &recorded
		p.Reason += "; clients must not connect to it any more"
		p.Step = plan.ExcludePod{Meta: plan.Meta{Object: m.Pod.Name, UID: m.Pod.UID}, Excluded: true}

		return p
	case recorded.ReadyAt.IsZero():
		recorded.ReadyAt = v.now
		p.Migration = &recorded
	}
	if ready := recorded.ReadyAt.Add(serviceDelay); v.now.Before(ready) {
		p.WaitsFor, p.RequeueAfter = "all nodes to send new connections only to the other members", ready.Sub(v.now)

		return p
	}
	p.Reason = fmt.Sprintf("%s by a quorum read; removing %s leaves %d voting members with a quorum of %d: allowed", v.quorumStatus(), m.Name, after, etcdcluster.QuorumOf(after))
	removal := removeListed(v, *m.Listed)
	if !helper.IsStoreConfigured(v.etcd) {
		removal.Compare = healthyPods(v.members)
	}
	p.Step = removal

	return p
}

// moveLeaderOfMigrating transfers the leadership, if possible to a member whose volume is not replaced any more.
func moveLeaderOfMigrating(v view, p plan.Plan, leader etcdcluster.Member) plan.Plan {
	to := -1
	for i, member := range v.members {
		if member.Ordinal != leader.Ordinal && isVoting(member) && mayLead(member) && (to < 0 || memberVolumeCause(v, v.members[to]) != "") {
			to = i
		}
	}
	if to < 0 {
		p.WaitsFor = "another healthy member"

		return p
	}
	p.Reason += " after it has transferred the leadership"
	p.Step = plan.MoveLeader{Meta: plan.Meta{Object: leader.Pod.Name, UID: leader.Pod.UID}, To: v.members[to].ID(), ToName: v.members[to].Name}

	return p
}

// discardMigrating deletes the recorded claim of a removed member, and the pod that uses it. It does not delete any other claim. While that takes long,
// for example because its node is unreachable, the learner that its sidecar has added must not prevent another member from joining.
func discardMigrating(v view, p plan.Plan, m etcdcluster.Member, claim etcdcluster.Claim) plan.Plan {
	p.Reason = fmt.Sprintf("%s; %s was removed, and its volume and its pod are replaced", v.quorumStatus(), m.Name)
	switch {
	case !claim.Deleting:
		p.Step = plan.DeleteClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}, IsRemoved: true}
	case m.Pod != nil && !m.Pod.Deleting:
		// The sidecar ignores the signal while it tries to start etcd, whose data is void.
		p.Step = plan.DeletePod{Meta: plan.Meta{Object: m.Pod.Name, UID: m.Pod.UID}, GracePeriod: 1}
	case m.Listed != nil && slices.ContainsFunc(v.members, func(other etcdcluster.Member) bool { return other.Ordinal != m.Ordinal && awaitedOf(v, other) != "" }):
		p.Reason += "; etcd accepts one learner at a time, and no other member could join"
		p.Step = removeListed(v, *m.Listed)
	default:
		p.WaitsFor = "claim " + claim.Name + " to be gone"
		if m.Pod != nil {
			p.WaitsFor += outOfServiceHint(*m.Pod)
		}
	}

	return p
}
