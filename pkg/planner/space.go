// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// This file decides how space is freed after etcd has raised the alarm NOSPACE. etcd compares the size of the database file with the quota, and the
// file only shrinks by a defragmentation. It rejects writes until each alarm is disarmed, also those of members that do not exist any more.
//
// kube-apiserver does not compact meanwhile, because its compaction begins with a write. The order is:
//
//  1. With delta snapshots, take one: the sidecar then misses nothing of the history.
//  2. Remove the history up to this snapshot, and all of it if that is not enough.
//  3. If members still report that too much is in use, defragment a follower: what is left are the keys. If these need too much space, report which
//     ones.
//  4. Defragment the other followers, transfer the leadership, and defragment the previous leader.
//  5. Disarm each alarm.
//  6. Request a full snapshot, because a change of the leader can leave a gap between delta snapshots.

const (
	// keptHistory is the number of revisions that stay at first in a cluster without delta snapshots. Clients that watch then need not read again.
	keptHistory = 1000
	// compactionGrace is how long members may take to remove the history after the first one has.
	compactionGrace = 15 * time.Second
	// deltaAttempts is the number of attempts to take a delta snapshot. The history is removed without one then: the sidecar takes a full snapshot
	// when the store is available again.
	deltaAttempts = 2
	// spaceRetry is the pause after which the operator tries again to free space.
	spaceRetry = 5 * time.Minute
	// spaceRepeat is the pause after an end, if etcd raises the alarm again although no file is large.
	spaceRepeat = 10 * time.Minute
)

// isSpaceExhausted is true while the operator frees space, or if the status reports the alarm NOSPACE. A single member is queried then.
func isSpaceExhausted(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	return o.State.Space.IsActive() || slices.ContainsFunc(etcd.Status.Conditions, func(c druidv1alpha1.Condition) bool {
		return c.Type == druidv1alpha1.ConditionTypeDatabaseSpaceAvailable && (c.Reason == druidv1alpha1.ReasonNoSpace || c.Reason == druidv1alpha1.ReasonFreeingSpaceBlocked)
	})
}

// spaceToRecord returns the next record: it begins with an alarm, contains the result of the last call, and ends without alarms. Nil: there is
// nothing to record.
func spaceToRecord(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) *state.Space {
	now = now.UTC().Round(0)
	recorded, isRaised := o.State.Space, len(o.Etcd.AlarmsOf(etcdcluster.AlarmNoSpace)) > 0
	if !recorded.IsActive() {
		if !isRaised {
			return nil
		}

		return beginSpace(etcd, o, now)
	}
	next := *recorded
	addSpaceCall(&next, etcd, o)
	if !isRaised && o.Etcd.AnyReachable() && !helper.IsStoreConfigured(etcd) {
		return next.Ended(now)
	}
	isEnough := next.Needed > 0 && etcdcluster.SmallestInUse(o.Etcd) < spaceLimit(etcd, o)
	if next.Blocked != "" && (!now.Before(next.RetryAt) || isEnough) {
		next.Blocked, next.Needed, next.RetryAt, next.Stored, next.Compacted = "", 0, time.Time{}, 0, 0
	}

	return &next
}

// beginSpace returns the record of a new alarm. An alarm soon after the last one, while all files are small, shows that the quota of a member differs
// from that of the spec. While a member does not respond, its file may be large.
func beginSpace(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) *state.Space {
	begun := &state.Space{Since: now}
	last := o.State.Space
	mayBeLarge := func(m etcdcluster.Member) bool {
		return m.Endpoint == nil || !m.Endpoint.Reachable || m.Endpoint.DBSize >= spaceLimit(etcd, o)
	}
	members := etcdcluster.MembersOf(etcd, o, etcdcluster.RenderedReplicas(o)) // others have no pod yet
	if last != nil && now.Before(last.EndedAt.Add(spaceRepeat)) && len(members) > 0 && !slices.ContainsFunc(members, mayBeLarge) {
		begun.RetryAt = last.EndedAt.Add(spaceRepeat)
		begun.Blocked = fmt.Sprintf("The operator disarmed the alarm at %s, and etcd has raised it again although each database file is smaller than 80%% of the quota of %s. "+
			"The quota of a member may be smaller until its pod is replaced", last.EndedAt.Format(time.RFC3339), formatBytes(spaceQuota(etcd, o)))
	}

	return begun
}

// addSpaceCall adds the result of the last call to the record, once.
func addSpaceCall(next *state.Space, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) {
	call := o.SpaceCall
	if call.ID() == "" || call.ID() == next.Call || call.StartedAt.Before(next.Since) {
		return
	}
	next.Call, next.At = call.ID(), call.EndedAt.UTC().Round(0)
	isCount := call.Kind == plan.TraitsOf(plan.CountKeys{}).Kind
	if call.Err != nil && !isCount {
		next.Failures, next.Error = next.Failures+1, call.Err.Error()
		if call.Kind == plan.TraitsOf(plan.TakeDeltaSnapshot{}).Kind && next.Failures >= deltaAttempts {
			next.Stored, next.Failures = max(1, o.FullSnapshotLease.Revision(), o.DeltaSnapshotLease.Revision()), 0
		}

		return
	}
	next.Failures, next.Error = 0, ""
	next.Stored = max(next.Stored, call.Stored)
	if call.Compacted > next.Compacted {
		next.Compacted, next.CompactedAt = call.Compacted, next.At
	}
	if call.Kind == plan.TraitsOf(plan.DefragmentMember{}).Kind {
		next.Measured = highestQuorumRevision(o)
	}
	if isCount {
		next.RetryAt, next.Needed = next.At.Add(spaceRetry), etcdcluster.SmallestInUse(o.Etcd)
		next.Blocked = fmt.Sprintf("The keys need %s without their history, more than 80%% of the quota of %s. %s. Delete keys, or increase spec.etcd.quota",
			formatSize(etcdcluster.SmallestInUse(o.Etcd)), formatBytes(spaceQuota(etcd, o)), mostKeys(call))
	}
}

// reportedPrefixes is the number of prefixes in a message.
const reportedPrefixes = 5

// mostKeys names the prefixes with most keys.
func mostKeys(call etcdcluster.SpaceCall) string {
	if call.Err != nil {
		return "The keys cannot be counted: " + call.Err.Error()
	}
	var counts []string
	for _, count := range call.Keys[:min(len(call.Keys), reportedPrefixes)] {
		counts = append(counts, fmt.Sprintf("%s has %d", cmp.Or(count.Prefix, "all other prefixes together"), count.Keys))
	}
	if len(counts) == 0 {
		return "There are no keys"
	}

	return "The prefixes with most keys: " + strings.Join(counts, ", ")
}

// freeSpace decides while an alarm NOSPACE is raised, or its end is not complete. It leaves the decision to the other rules in two cases. A member is
// not healthy, which they repair. Or the operator cannot free space: they roll out a larger quota.
func freeSpace(v view, p plan.Plan) (plan.Plan, bool) {
	recorded, before := p.Space, p
	if !recorded.IsActive() {
		return p, false
	}
	p.Stage, p.PollMembers = plan.StageFreeSpace, true
	p.Reason = fmt.Sprintf("%s; a database has reached its quota of %s", v.quorumStatus(), formatBytes(spaceQuota(v.etcd, v.o)))
	raised := v.o.Etcd.AlarmsOf(etcdcluster.AlarmNoSpace)
	pause := recorded.At.Add(pauseAfter(recorded.Failures))
	switch {
	case v.o.SpaceCall.Running:
		p.WaitsFor = "the call that frees space to end"
	case isSpaceHeld(v):
		return before, false
	case v.o.Defragmentation != "":
		p.WaitsFor = "EtcdOpsTask " + v.o.Defragmentation + " to end"
	case len(raised) == 0:
		p.Reason = v.quorumStatus() + "; no database has reached its quota any more"
		p.Step = plan.RequestSnapshot{Meta: spaceMeta(v), Task: fmt.Sprintf("%s-space-%d", v.etcd.Name, recorded.Compacted)}
	case recorded.Blocked != "":
		return before, false
	case recorded.Failures > 0 && v.now.Before(pause):
		p.RequeueAfter = pause.Sub(v.now)
		p.WaitsFor = fmt.Sprintf("the next attempt at %s: %s", pause.UTC().Format(time.RFC3339), recorded.Error)
	default:
		return compactHistory(v, p, raised), true
	}

	return p, true
}

// spaceMeta is the Etcd as the object of a step.
func spaceMeta(v view) plan.Meta { return plan.Meta{Object: v.etcd.Name, UID: v.etcd.UID} }

// isSpaceHeld is true if no space can be freed now. Each member must be a healthy voting member that the operator manages, and that the quorum does not
// need. No alarm of another type may be raised: it would have no effect any more after the last alarm NOSPACE is disarmed.
func isSpaceHeld(v view) bool {
	if len(v.o.Etcd.AlarmsOf(etcdcluster.AlarmCorrupt)) > 0 || v.o.Etcd.HasWriteRejection() || !v.isMemberListKnown() || v.leader() == nil {
		return true
	}
	if len(v.leaving) > 0 || v.joined > 0 || len(v.o.Etcd.MemberList) != len(v.members) {
		return true
	}
	if v.size > 1 && !etcdcluster.IsQuorate(v.healthy-1, v.size) {
		return true // a scale-up or a scale-in completes first
	}

	return slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool {
		return m.Pod == nil || m.Pod.Deleting || m.Listed == nil || m.Listed.Learner || !m.IsHealthy()
	})
}

// compactHistory removes the history, or continues with the defragmentation if the members have removed enough of it.
func compactHistory(v view, p plan.Plan, raised []etcdcluster.Alarm) plan.Plan {
	recorded, revision := p.Space, highestQuorumRevision(v.o)
	leader := v.leaderMember()
	usesDeltas := helper.IsStoreConfigured(v.etcd) && helper.TakesDeltaSnapshots(v.etcd)
	target := max(1, revision-keptHistory)
	if usesDeltas {
		target = recorded.Stored
	}
	inUse, limit := etcdcluster.SmallestInUse(v.o.Etcd), spaceLimit(v.etcd, v.o)
	switch {
	case usesDeltas && recorded.Stored == 0:
		p.Reason += ": the store needs all writes before their history is removed"
		p.Step = plan.TakeDeltaSnapshot{Meta: podMeta(leader)}
	case recorded.Compacted < target:
		p.Reason += fmt.Sprintf(": the history up to revision %d is removed", target)
		p.Step = plan.CompactHistory{Meta: podMeta(leader), Revision: target}
	case inUse < limit:
		return defragmentMembers(v, p, raised)
	case v.now.Before(recorded.CompactedAt.Add(compactionGrace)):
		p.RequeueAfter = recorded.CompactedAt.Add(compactionGrace).Sub(v.now)
		p.WaitsFor = fmt.Sprintf("all members to remove the history up to revision %d", recorded.Compacted)
	case recorded.Compacted < revision:
		p.Reason += fmt.Sprintf(": %s are in use without the history up to revision %d, so that all of it is removed", formatSize(inUse), recorded.Compacted)
		p.Step = plan.CompactHistory{Meta: podMeta(leader), Revision: revision}
	case recorded.Measured < revision:
		return measureKeys(v, p)
	default:
		p.Reason += fmt.Sprintf(": %s are in use without history, and the keys are counted", formatSize(inUse))
		p.Step = plan.CountKeys{Meta: podMeta(leader)}
	}

	return p
}

// measureKeys defragments a follower to find out how much space the keys need. Members of etcd 3.4 and 3.5 report space that a compaction has freed
// only after later writes, which they reject.
func measureKeys(v view, p plan.Plan) plan.Plan {
	next := nextToDefragment(v, 0)
	if missing := missingRoom(v.o, *next); missing != "" {
		return withoutRoom(v, p, missing)
	}
	p.Reason += fmt.Sprintf(": %s reports that %s are in use, which its defragmentation verifies", next.Name, formatSize(next.Endpoint.DBSizeInUse))
	p.Step = plan.DefragmentMember{Meta: podMeta(*next)}

	return p
}

// withoutRoom returns the plan that waits for a larger volume.
func withoutRoom(v view, p plan.Plan, missing string) plan.Plan {
	p.Space = new(*p.Space)
	p.Space.Blocked, p.Space.RetryAt = missing, v.now.UTC().Round(0).Add(spaceRetry)
	p.Reason += ": " + missing
	p.WaitsFor = "a larger volume"

	return p
}

// defragmentMembers defragments each member with a large file, one after the other and the leader last, and then disarms the alarms.
func defragmentMembers(v view, p plan.Plan, raised []etcdcluster.Alarm) plan.Plan {
	limit := spaceLimit(v.etcd, v.o)
	next := nextToDefragment(v, limit)
	if next == nil {
		p.Reason += ": each database file is smaller than 80% of it, and the alarms are disarmed"
		p.Step = plan.DisarmAlarm{Meta: spaceMeta(v), Member: raised[0].MemberID}

		return p
	}
	if missing := missingRoom(v.o, *next); missing != "" {
		return withoutRoom(v, p, missing)
	}
	if next.Endpoint.IsLeader() && len(v.members) > 1 {
		successor := successorOf(v, *next)
		p.Reason += fmt.Sprintf(": %s is the last one to be defragmented, after leadership is transferred to %s", next.Name, successor.Name)
		p.Step = plan.MoveLeader{Meta: podMeta(*next), To: successor.ID(), ToName: successor.Name}

		return p
	}
	p.Reason += fmt.Sprintf(": %s is defragmented, whose file has %s", next.Name, formatSize(next.Endpoint.DBSize))
	p.Step = plan.DefragmentMember{Meta: podMeta(*next)}

	return p
}

// nextToDefragment returns the next member whose file has at least that many bytes. The leader is last. Nil: there is none.
func nextToDefragment(v view, limit int64) *etcdcluster.Member {
	var leader *etcdcluster.Member
	for i := range v.members {
		switch member := &v.members[i]; {
		case member.Endpoint.DBSize < limit:
		case member.Endpoint.IsLeader():
			leader = member
		default:
			return member
		}
	}

	return leader
}

// successorOf returns the follower with the smallest file. It has just been defragmented.
func successorOf(v view, leader etcdcluster.Member) etcdcluster.Member {
	isLeader := func(m etcdcluster.Member) bool { return m.Ordinal == leader.Ordinal }
	followers := slices.DeleteFunc(slices.Clone(v.members), func(m etcdcluster.Member) bool { return isLeader(m) || !mayLead(m) })
	if len(followers) == 0 {
		followers = slices.DeleteFunc(slices.Clone(v.members), isLeader)
	}

	return slices.MinFunc(followers, func(a, b etcdcluster.Member) int { return cmp.Compare(a.Endpoint.DBSize, b.Endpoint.DBSize) })
}

// missingRoom returns why the volume of a member has no room for the copy that a defragmentation writes. Empty: it has.
func missingRoom(o etcdcluster.Observation, m etcdcluster.Member) string {
	claim := o.ClaimFor(m.Ordinal)
	if claim == nil || claim.Capacity == 0 {
		return ""
	}
	reserve := min(claim.Capacity/10, 512<<20) // for the log
	if needed := m.Endpoint.DBSize + m.Endpoint.DBSizeInUse + reserve; needed > claim.Capacity {
		return fmt.Sprintf("The volume of PersistentVolumeClaim %s has %s, and the defragmentation of %s needs %s, because it copies the database. Increase spec.storageCapacity",
			claim.Name, formatBytes(claim.Capacity), m.Name, formatSize(needed))
	}

	return ""
}

// formatSize formats a size in bytes as whole mebibytes, rounded up.
func formatSize(bytes int64) string { return formatBytes((bytes + 1<<20 - 1) >> 20 << 20) }

// spaceQuota is the quota in bytes. Members before etcd 3.6 do not report theirs, which is then that of the spec.
func spaceQuota(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) int64 {
	return etcdcluster.QuotaOf(new(helper.Quota(etcd)).Value(), o.Etcd)
}

// spaceLimit is the size in bytes from which on a database file is too large: 80% of the quota.
func spaceLimit(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) int64 {
	return spaceQuota(etcd, o) / 10 * 8
}

// highestQuorumRevision is the highest revision that a linearizable read has returned.
func highestQuorumRevision(o etcdcluster.Observation) int64 {
	highest := int64(0)
	for _, member := range o.Etcd.Members {
		highest = max(highest, member.QuorumRevision)
	}

	return highest
}

// podMeta is the pod of a member as the object of a step.
func podMeta(m etcdcluster.Member) plan.Meta { return plan.Meta{Object: m.Pod.Name, UID: m.Pod.UID} }

// leaderMember is the member that reports that it is the leader. There is one, see view.leader.
func (v view) leaderMember() etcdcluster.Member {
	index := slices.IndexFunc(v.members, func(m etcdcluster.Member) bool { return m.Endpoint != nil && m.Endpoint.IsLeader() })

	return v.members[index]
}
