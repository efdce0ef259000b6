// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// NextIncident returns the incident to record after an observation. The second result is false if the record stays as it is. Only an observation
// with a linearizable read and a member list changes it.
//
// The reads of an observation confirm only what was recorded before: the API server is partly read after the members.
func NextIncident(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (*state.Incident, bool) {
	return nextIncident(etcd, o, now, false)
}

// nextIncident is NextIncident. Before an act that may delete the claim of a lost volume, it also records members whose etcd has not ended.
func nextIncident(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time, isBeforeDeletion bool) (*state.Incident, bool) {
	read, voters, recorded := quorumRead(o), votersOf(o), o.State.Incident
	if read == nil || clusterOf(read) == "" || len(voters) == 0 || o.Failure(etcdcluster.SectionClaims) != "" || o.Failure(etcdcluster.SectionPods) != "" {
		return nil, false
	}
	lost := lostVoters(etcd, o, voters, isBeforeDeletion)
	toleratesLoss := len(voters)-len(lost) > etcdcluster.QuorumOf(len(voters))
	if len(lost) == 0 && (toleratesLoss || recorded == nil) {
		return nil, recorded != nil
	}
	if recorded == nil || recorded.ClusterID != clusterOf(read) || !slices.Equal(recorded.Voters, voters) || !slices.Equal(recorded.Lost, lost) {
		return &state.Incident{ClusterID: clusterOf(read), Voters: voters, Lost: lost, At: now}, true
	}
	if slices.ContainsFunc(lost, func(voter state.LostVoter) bool { return voter.Running }) {
		return nil, false // until it has ended, the reads of others prove nothing
	}
	next := withReads(*recorded, o)

	return &next, len(next.Confirmed) != len(recorded.Confirmed)
}

// withReads returns the incident with the voting members that have completed a linearizable read.
func withReads(next state.Incident, o etcdcluster.Observation) state.Incident {
	next.Confirmed = slices.Clone(next.Confirmed)
	for _, status := range o.Etcd.Members {
		id := etcdcluster.FormatID(status.MemberID)
		isVoter := slices.ContainsFunc(next.Voters, func(voter state.Voter) bool { return voter.ID == id })
		if status.Healthy && !status.Learner && isVoter && !slices.Contains(next.Confirmed, id) {
			next.Confirmed = append(next.Confirmed, id)
		}
	}
	slices.Sort(next.Confirmed)

	return next
}

// lostVoters returns the voting members whose data is lost. Members whose etcd has not ended are recorded only before an act that may delete
// their claims.
func lostVoters(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, voters []state.Voter, isBeforeDeletion bool) []state.LostVoter {
	var lost []state.LostVoter
	members := etcdcluster.MembersOf(etcd, o, max(etcd.Spec.Replicas, etcdcluster.RenderedReplicas(o)))
	for _, voter := range voters {
		index := slices.IndexFunc(members, func(m etcdcluster.Member) bool {
			return m.Listed != nil && etcdcluster.FormatID(m.Listed.ID) == voter.ID
		})
		if index < 0 {
			continue
		}
		member := members[index]
		before, isRunning := recordedLoss(o.State.Incident, voter.ID), !hasEnded(o, member)
		if before != nil && !mayHaveReturned(o, member, *before) {
			lost = append(lost, state.LostVoter{
				Voter: voter, Claim: before.Claim, Deleted: before.Deleted || isDeleted(o, member, *before), Running: before.Running && isRunning,
			})
		} else if o.VolumeLostReason(member.Ordinal) != "" && (isBeforeDeletion || !isRunning) {
			lost = append(lost, state.LostVoter{Voter: voter, Claim: o.ClaimFor(member.Ordinal).UID, Running: isRunning})
		}
	}

	return lost
}

// recordedLoss returns the recorded loss of a voting member. Nil: none is recorded.
func recordedLoss(recorded *state.Incident, id string) *state.LostVoter {
	if recorded == nil {
		return nil
	}
	index := slices.IndexFunc(recorded.Lost, func(voter state.LostVoter) bool { return voter.ID == id })
	if index < 0 {
		return nil
	}

	return &recorded.Lost[index]
}

// mayHaveReturned is true if the lost data of a voting member may exist again, or if the member responds after it had ended. Its claim is the
// same, and nothing reports its volume as lost any more. A claim that is gone never returns.
func mayHaveReturned(o etcdcluster.Observation, member etcdcluster.Member, lost state.LostVoter) bool {
	responds := !lost.Running && member.Endpoint != nil && member.Endpoint.Reachable && etcdcluster.FormatID(member.Endpoint.MemberID) == lost.ID

	return responds || !lost.Deleted && !isDeleted(o, member, lost) && o.VolumeLostReason(member.Ordinal) == ""
}

// isDeleted is true if the claim with the lost data of a member does not exist any more. It is false for a claim that was not observed.
func isDeleted(o etcdcluster.Observation, member etcdcluster.Member, lost state.LostVoter) bool {
	claim := o.ClaimFor(member.Ordinal)

	return claim != nil && (!claim.Exists || claim.UID != lost.Claim)
}

// hasEnded is true if the etcd of a member has ended, and no kubelet starts it again. It has no pod in which etcd has started, or its node is gone
// or out of service. A container may use a volume that was deleted, also after a restart.
func hasEnded(o etcdcluster.Observation, member etcdcluster.Member) bool {
	if member.Endpoint != nil && member.Endpoint.Reachable {
		return false
	}

	return member.Pod == nil || !member.Pod.HasStarted() || o.NodeLostReason(member.Ordinal) != ""
}

// MayProveNoLoss is true if the log of a member may prove that it has every acknowledged write. Its ID has hexadecimal digits, and created is when its
// claim was created.
func MayProveNoLoss(recorded state.State, id string, created time.Time) bool {
	incident := recorded.Incident
	if incident == nil || recorded.Evidence == nil || recorded.Evidence.RolledBack != nil || created.After(incident.At) || !slices.Contains(incident.Confirmed, id) {
		return false
	}
	log := etcdcluster.InspectedLog{MemberID: id}
	for _, voter := range incident.Voters {
		log.Voters = append(log.Voters, voter.ID)
	}

	return unprovenQuorum(*incident, log) == ""
}

// UnprovenLoss returns why it is not proven that the log of a remaining member has every acknowledged write. Empty: it is proven. The log is that
// of a member that was stopped, with all its entries, and created is when its claim was created. The decision record 13-quorum-loss contains the
// proof.
func UnprovenLoss(recorded state.State, found etcdcluster.Inspection, created time.Time) string {
	incident, log := recorded.Incident, found.Log
	switch {
	case incident == nil || recorded.Evidence == nil:
		return "no linearizable read is recorded after the first loss of a member"
	case recorded.Evidence.RolledBack != nil:
		return "the cluster has lost acknowledged writes before"
	case log == nil:
		return "the log of the member cannot be read: " + found.LogProblem
	case log.ClusterID != incident.ClusterID:
		return fmt.Sprintf("the member belongs to cluster %s, and cluster %s was recorded", log.ClusterID, incident.ClusterID)
	case !slices.Contains(incident.Confirmed, log.MemberID):
		return fmt.Sprintf("no linearizable read of member %s is recorded after %s", log.MemberID, stamp(incident.At))
	case created.After(incident.At):
		return fmt.Sprintf("its claim was created at %s, after the recorded reads: its data may be older", stamp(created))
	case log.DiscardedBytes != 0:
		return fmt.Sprintf("%d bytes at the end of the log cannot be read", log.DiscardedBytes)
	case log.LastTerm < recorded.Evidence.Term || log.MaxRevision < recorded.Evidence.HighestRevision:
		return fmt.Sprintf("the log ends with term %d and at most revision %d, and a quorum had term %d and revision %d",
			log.LastTerm, log.MaxRevision, recorded.Evidence.Term, recorded.Evidence.HighestRevision)
	default:
		return unprovenQuorum(*incident, *log)
	}
}

// unprovenQuorum returns why a quorum without the member may have confirmed entries that its log lacks. Empty: no quorum could.
func unprovenQuorum(incident state.Incident, log etcdcluster.InspectedLog) string {
	isLost := func(id string) bool {
		lost := recordedLoss(&incident, id)

		return lost != nil && lost.Deleted
	}
	isKnown := func(id string) bool {
		return slices.ContainsFunc(incident.Voters, func(voter state.Voter) bool { return voter.ID == id })
	}
	if joined := slices.DeleteFunc(slices.Concat(log.Voters, log.FormerVoters), isKnown); len(joined) > 0 {
		return fmt.Sprintf("member %s became a voting member after the recorded read, and may have confirmed writes", strings.Join(joined, ", "))
	}
	// The members may have been removed in any order. The fewer lost members are listed, the fewer confirmations a quorum needs.
	others, voters := 0, 0
	for _, voter := range incident.Voters {
		switch {
		case isLost(voter.ID) && !slices.Contains(log.Voters, voter.ID):
			continue
		case !isLost(voter.ID) && voter.ID != log.MemberID:
			others++
		}
		voters++
	}
	if !slices.Contains(log.Voters, log.MemberID) || etcdcluster.IsQuorate(others, voters) {
		return fmt.Sprintf("%d of %d voting members could confirm writes without member %s", others, voters, log.MemberID)
	}

	return ""
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
