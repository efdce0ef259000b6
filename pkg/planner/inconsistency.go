// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// The care controller compares the data of all voting members, and records a difference. When consistency.Confirmations comparisons in a row have found
// the same difference, this file decides:
//
//   - If no quorum of all voting members has the same data, the operator cannot decide which data is correct. It changes nothing.
//   - Otherwise the members with other data are replaced, one after the other:
//
//     1. The leadership moves to a member with the data of the quorum.
//     2. The client Service does not select the pods with other data any more.
//     3. All other members are healthy voting members. The sidecar of the leader takes a full snapshot. Without the store, three attempts are enough.
//     4. The volume gets the reclaim policy Retain, because it is evidence.
//     5. The claim and the pod are deleted. etcd stops before anything changes the volume. The sidecar of the next pod has an empty volume, replaces the
//     member by a learner, and the learner gets the data of the quorum.
//
// All steps are about members with the recorded ID. A member that was replaced has another ID. The record disappears when a comparison finds no
// difference.

// comparisonValidity is how long a comparison decides about a member that clients still use. A healthy cluster is compared again within a minute.
const comparisonValidity = 5 * time.Minute

// excludesPods is true if the client Service has to select pods by the label that the operator changes for some members. These have other data than a
// quorum, or a volume migration removes them. It does so until a comparison finds no difference, and until the migration has replaced all members.
func excludesPods(v view) bool {
	found := v.o.State.Inconsistency
	_, has := consistency.Majority(found)
	isExcluded := func(m etcdcluster.Member) bool { return m.Pod != nil && m.Pod.Excluded }

	return has && consistency.IsConfirmed(found) || v.o.State.Migration.AddsMember() || slices.ContainsFunc(v.members, isExcluded)
}

// differingMembers returns the members that have other data than a quorum of all voting members, and whose pods run on that data. Nil: there is none, or
// the difference is not confirmed.
func differingMembers(v view) []etcdcluster.Member {
	found := v.o.State.Inconsistency
	if !consistency.IsConfirmed(found) || !v.isMemberListKnown() || v.joined > 0 {
		return nil
	}
	isRecent := v.now.Sub(found.At) < comparisonValidity
	var differing []etcdcluster.Member
	for _, member := range v.members {
		pod, claim := member.Pod, v.o.ClaimFor(member.Ordinal)
		if pod == nil || pod.Deleting || claim == nil || !claim.Exists || !isRecordedAs(member, consistency.Minority(found)) {
			continue
		}
		if pod.Excluded || isVoting(member) && isRecent {
			differing = append(differing, member)
		}
	}

	return differing
}

// mayLead is true for a healthy member that clients use. A member with other data than a quorum must not lead again.
func mayLead(m etcdcluster.Member) bool { return m.IsHealthy() && (m.Pod == nil || !m.Pod.Excluded) }

// isRecordedAs is true if the hashes contain one of the member in the member list.
func isRecordedAs(m etcdcluster.Member, hashes []state.MemberHash) bool {
	return m.Listed != nil && slices.ContainsFunc(hashes, func(h state.MemberHash) bool { return h.ID == etcdcluster.FormatID(m.Listed.ID) })
}

// replaceDiffering replaces the members that have other data than a quorum of all voting members.
func replaceDiffering(v view, p plan.Plan) (plan.Plan, bool) {
	if halted, is := haltOnInconsistency(v, p); is {
		return halted, true
	}
	differing := differingMembers(v)
	if _, isHeld := holdPeers(v, p); len(differing) == 0 || isHeld {
		return p, false // nothing is rendered meanwhile, neither the Service nor the record of the volume
	}
	p.Stage, p.PollMembers = plan.StageReplaceVolume, true
	if moved, is := moveLeaderOfDiffering(v, p, differing); is {
		return moved, true
	}
	for _, member := range differing {
		if !member.Pod.Excluded {
			p.Reason = differs(v, member) + "; clients must not read from it"
			p.Step = plan.ExcludePod{Meta: plan.Meta{Object: member.Pod.Name, UID: member.Pod.UID}, Excluded: true, OtherData: true}

			return p, true
		}
	}

	return replaceNextDiffering(v, p, differing)
}

// differs states that a member has other data than a quorum.
func differs(v view, m etcdcluster.Member) string {
	return fmt.Sprintf("%s; %s has other data than a quorum of all voting members: %s", v.quorumStatus(), m.Name, consistency.Describe(*v.o.State.Inconsistency))
}

// selectAgain lets the client Service select an excluded pod again whose member has not got other data any more, and is not removed now.
func selectAgain(v view, p plan.Plan) (plan.Plan, bool) {
	for _, member := range v.members {
		if member.Pod == nil || !member.Pod.Excluded || member.Pod.Deleting || mayHaveOtherData(v, member) || isBeingRemoved(v, p, member) {
			continue
		}
		p.Stage = plan.StageReplaceVolume
		p.Reason = fmt.Sprintf("%s; the data of %s is not different any more, and it is not removed now, so the client Service selects it again", v.quorumStatus(), member.Name)
		p.Step = plan.ExcludePod{Meta: plan.Meta{Object: member.Pod.Name, UID: member.Pod.UID}}

		return p, true
	}

	return p, false
}

// mayHaveOtherData is true if the last comparison has found other data in this member than in a quorum. A member stays excluded while another
// comparison is not confirmed. A member that has joined again since then has another ID, and got the data of the leader.
func mayHaveOtherData(v view, m etcdcluster.Member) bool {
	found := v.o.State.Inconsistency
	correct, has := consistency.Majority(found)

	return found != nil && slices.ContainsFunc(found.Members, func(h state.MemberHash) bool {
		return h.Name == m.Name && (m.Listed == nil || m.Listed.Learner || h.ID == etcdcluster.FormatID(m.Listed.ID)) && (!has || h.Hash != correct)
	})
}

// haltOnInconsistency stops if no quorum of all voting members has the same data. Each step could delete the correct data. It does not stop any more
// when a user has replaced one of the members, or removed it: then the next comparison decides.
func haltOnInconsistency(v view, p plan.Plan) (plan.Plan, bool) {
	found := v.o.State.Inconsistency
	if _, has := consistency.Majority(found); has || !consistency.IsConfirmed(found) || !v.isMemberListKnown() {
		return p, false
	}
	for _, hash := range found.Members {
		if !slices.ContainsFunc(v.o.Etcd.MemberList, func(m etcdcluster.ListedMember) bool { return etcdcluster.FormatID(m.ID) == hash.ID }) {
			return p, false
		}
	}
	p.Stage, p.Render = plan.StageHalted, false
	p.Reason = v.quorumStatus() + "; the members have different data, and no quorum of all voting members has the same, so the operator changes nothing"
	p.WaitsFor = "a user to decide which data is correct: " + consistency.Describe(*found)

	return p, true
}

// correctMembers returns the healthy voting members with the data of the quorum.
func correctMembers(v view) []etcdcluster.Member {
	found := v.o.State.Inconsistency
	hash, _ := consistency.Majority(found)
	same := slices.DeleteFunc(slices.Clone(found.Members), func(h state.MemberHash) bool { return h.Hash != hash })

	return slices.DeleteFunc(slices.Concat(v.members, v.leaving), func(m etcdcluster.Member) bool { return !isVoting(m) || !isRecordedAs(m, same) })
}

// moveLeaderOfDiffering transfers the leadership to a member with the data of the quorum. The leader sends its data to learners, and its sidecar takes
// the snapshots.
func moveLeaderOfDiffering(v view, p plan.Plan, differing []etcdcluster.Member) (plan.Plan, bool) {
	i := slices.IndexFunc(differing, func(m etcdcluster.Member) bool { return isVoting(m) && m.Endpoint != nil && m.Endpoint.IsLeader() })
	correct := correctMembers(v)
	if i < 0 || len(correct) == 0 {
		return p, false
	}
	from, to := differing[i], correct[0]
	p.Reason = differs(v, from) + fmt.Sprintf("; %s becomes the leader", to.Name)
	if v.o.Defragmentation != "" {
		p.WaitsFor = "EtcdOpsTask " + v.o.Defragmentation + " to end"

		return p, true
	}
	p.Step = plan.MoveLeader{Meta: plan.Meta{Object: from.Pod.Name, UID: from.Pod.UID}, To: to.ID(), ToName: to.Name}

	return p, true
}

// replaceNextDiffering replaces one member with its volume. All others recover first, except the ones that are replaced later. The pod of a healthy member
// need not be ready: if only its replacement makes it ready, that waits for this one.
func replaceNextDiffering(v view, p plan.Plan, differing []etcdcluster.Member) (plan.Plan, bool) {
	next := slices.IndexFunc(differing, func(m etcdcluster.Member) bool { return v.o.ClaimFor(m.Ordinal).Deleting })
	member := differing[max(next, 0)]
	claim := v.o.ClaimFor(member.Ordinal)
	p.Reason = differs(v, member)
	isReplaced := func(m etcdcluster.Member) bool {
		return slices.ContainsFunc(differing, func(other etcdcluster.Member) bool { return other.Ordinal == m.Ordinal })
	}
	isAwaited := func(m etcdcluster.Member) bool {
		return !isReplaced(m) && awaitedOf(v, m) != "" && !isVotingUnready(m)
	}
	correct := len(correctMembers(v))
	switch {
	case slices.ContainsFunc(slices.Concat(v.members, v.leaving), isAwaited), !etcdcluster.IsQuorate(correct, v.size), member.Pod.IsNodeUnreachable():
		return p, false // the rules for other faults decide
	case claim.Deleting:
		return stopDiffering(v, p, member), true
	}
	if p.WaitsFor = awaitedBeforeReplacement(v); p.WaitsFor != "" {
		return p, true
	}
	if v.leader() == nil {
		p.WaitsFor = "a leader"

		return p, true
	}
	if before, waits := snapshotBeforeRemoval(v, p); waits && holdsRest(v.o.SnapshotAttempts, before) {
		return before, true
	}
	retained, text := keepVolume(p, v.o, *claim, v.now)
	if retained.Reason += text; retained.Step != nil || retained.WaitsFor != "" {
		return retained, true
	}
	retained.Reason += fmt.Sprintf("; with a new volume it joins again as a learner, and meanwhile %d of %d are healthy, with a quorum of %d: allowed", correct, v.size, etcdcluster.QuorumOf(v.size))
	retained.Step = plan.ReplaceClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}}

	return retained, true
}

// stopDiffering stops the pod of a member whose claim is being deleted. While the pod of another healthy member is not ready, the PodDisruptionBudget may
// refuse each eviction, and the pod is deleted.
func stopDiffering(v view, p plan.Plan, m etcdcluster.Member) plan.Plan {
	p.Reason += "; its claim is being deleted, and its pod uses it"
	p.Step = plan.EvictPod{Meta: plan.Meta{Object: m.Pod.Name, UID: m.Pod.UID}}
	all := slices.Concat(v.members, v.leaving)
	isRefused := m.Pod.Ready && !etcdcluster.IsQuorate(readyPodsOf(all)-1, len(all))
	if isProtectedByPDB(v, m) || isRefused && slices.ContainsFunc(all, isVotingUnready) {
		p.Step = deletePod(*m.Pod)
	}

	return p
}
