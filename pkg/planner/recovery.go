// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// A multi-member cluster is recovered if so many voting members have lost their data that the others can never be a quorum again. The operator
// first states the options with their losses. This file contains the options, recoverychoice.go the choice, and recover.go what follows it.

// QuorumLoss is what is known about a quorum that is lost forever.
type QuorumLoss struct {
	// Lost are the reasons why the data of members is lost, as sentences.
	Lost []string
	// Left are the names of the members whose data is not lost.
	Left []string
	// Votes is the number of voting members.
	Votes int
	// Known is the highest known revision. LastRead is when a quorum last returned a recorded revision. Zero: no read is recorded.
	Known    int64
	LastRead time.Time
	// LostAt is when the operator found the loss. Zero: it is not recorded yet.
	LostAt time.Time
	// Options are the sources of data from which the cluster can be recovered.
	Options []RecoveryOption
	// Policy decides who chooses.
	Policy druidv1alpha1.RecoveryPolicy
	// Recovery is the recorded recovery. Nil: none is recorded.
	Recovery *state.Recovery
	// RolledBack is the recorded loss of acknowledged writes that no user has accepted. Nil: there is none.
	RolledBack *state.RolledBack
	// Inconsistency is the recorded difference between the data of voting members. Nil: none is recorded.
	Inconsistency *state.Inconsistency
}

// RecoveryOption is data from which a cluster can be recovered.
type RecoveryOption struct {
	// Source of the data.
	Source state.RecoverySource
	// Revision of the data at least. 0: it is not known.
	Revision int64
	// Token chooses the option. It changes with the facts.
	Token string
	// Text describes the data and its loss.
	Text string
	// Unusable is why it cannot be chosen. Empty: it can.
	Unusable string
	// Unread is why the revision of the data is not known yet, as a sentence. Empty: it is known.
	Unread string
	// GivenUp is why the data may contain writes that users have given up, as a sentence. Empty: it does not.
	GivenUp string
	// MayBeProven is true if the operator can prove that nothing is lost, after it has stopped the members.
	MayBeProven bool
}

// QuorumLossOf returns what is known about a quorum that is lost forever. Nil: it is not lost forever, or facts are missing.
func QuorumLossOf(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) *QuorumLoss {
	count := etcdcluster.RenderedReplicas(o)
	if !helper.ManagesPods(etcd) || helper.IsHibernated(etcd) || count < 2 || isBeingRestored(o) || o.State.Restore == state.RestoreRecover ||
		o.State.Surge.IsActive() || unreadForRestore(o) != "" {
		return nil
	}
	v, _ := viewOf(etcd, o, count, now).withoutLeaving()
	if v.isQuorate() || v.isAnyHealthy() {
		return nil
	}

	return quorumLossOf(v)
}

// quorumLossOf is QuorumLossOf for a view without a healthy member.
func quorumLossOf(v view) *QuorumLoss {
	loss := &QuorumLoss{Policy: helper.RecoveryPolicy(v.etcd), Recovery: currentRecovery(v.o, v.now), Inconsistency: v.o.State.Inconsistency}
	for _, member := range v.members {
		if reason := dataLostReason(v, member); reason != "" {
			loss.Lost = append(loss.Lost, reason)
		} else {
			loss.Left = append(loss.Left, member.Name)
		}
	}
	votes, mayRecover := quorumAfterLoss(v, len(loss.Left))
	if len(loss.Lost) == 0 || mayRecover {
		return nil
	}
	loss.Votes = votes
	if recorded := v.o.State.Evidence; recorded != nil {
		loss.LastRead, loss.RolledBack = recorded.At, recorded.RolledBack
	}
	if loss.Recovery != nil {
		loss.LostAt = loss.Recovery.LostAt
	}
	loss.addOptions(v)

	return loss
}

// currentRecovery returns the recorded recovery. Nil: none is recorded, or a quorum has responded since. A response in the future is from a clock that
// was ahead.
func currentRecovery(o etcdcluster.Observation, now time.Time) *state.Recovery {
	recorded, confirmed := o.State.Recovery, o.State.Evidence
	if recorded != nil && o.State.Restore == state.RestoreNone && confirmed != nil && confirmed.At.After(recorded.LostAt) && !confirmed.At.After(now) {
		return nil
	}

	return recorded
}

// survivor is a voting member whose data is not lost.
type survivor struct {
	etcdcluster.Member
	claim etcdcluster.Claim
	// revision of its data at least. 0: it is not known.
	revision int64
}

// survivorsOf returns the members whose data is not lost. Learners are omitted: their data may be incomplete.
func survivorsOf(v view) []survivor {
	var survivors []survivor
	for _, member := range v.members {
		claim := v.o.ClaimFor(member.Ordinal)
		isLearner := member.Endpoint != nil && member.Endpoint.Learner
		if claim == nil || !claim.MayHaveData() || claim.Deleting || claim.Volume == "" || isLearner || dataLostReason(v, member) != "" {
			continue
		}
		left := survivor{Member: member, claim: *claim}
		if job := inspectionOf(v.o, *claim); member.Endpoint != nil && member.Endpoint.Reachable {
			left.revision = member.Endpoint.Revision
		} else if job != nil && job.Result != nil && isInspectionOf(v, member, *claim, *job) {
			left.revision = job.Result.Revision
		}
		survivors = append(survivors, left)
	}

	return survivors
}

// isReplacementEmpty is true if it is recorded that the data of a voting member was lost, and its new claim has no volume. A member may have joined
// with a volume, and it may have been promoted while the operator did not run.
func isReplacementEmpty(o etcdcluster.Observation, m etcdcluster.Member, claim etcdcluster.Claim) bool {
	return o.State.Incident != nil && claim.Volume == "" && slices.ContainsFunc(o.State.Incident.Lost, func(lost state.LostVoter) bool {
		return lost.Name == m.Name && (!claim.Exists || claim.UID != lost.Claim)
	})
}

// addOptions adds the options, with the loss of each.
func (l *QuorumLoss) addOptions(v view) {
	survivors := survivorsOf(v)
	if v.o.State.Evidence != nil {
		l.Known = v.o.State.Evidence.HighestRevision
	}
	for _, lease := range []etcdcluster.Lease{v.o.FullSnapshotLease, v.o.DeltaSnapshotLease} {
		if revision := lease.Revision(); !v.o.IsElsewhere(lease) && evidence.MayRestoreLost(v.o, revision) == "" {
			l.Known = max(l.Known, revision)
		}
	}
	for _, left := range survivors {
		l.Known = max(l.Known, left.revision)
	}
	if len(survivors) > 0 {
		l.addMembers(v, survivors)
	}
	if helper.IsStoreConfigured(v.etcd) {
		l.addStore(v)
	}
	if !hasJoinedVoters(v) {
		return
	}
	for i := range l.Options {
		l.Options[i].Unusable = "members of the cluster that the Etcd has joined vote, and the operator does not know their data"
	}
}

// hasJoinedVoters is true if members of the cluster that the Etcd has joined are recorded as voting members.
func hasJoinedVoters(v view) bool {
	recorded := v.o.State.Evidence

	return joinsExisting(v.etcd, v.o) && recorded != nil && slices.ContainsFunc(recorded.Voters, func(voter state.Voter) bool {
		return !slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return isMember(voter, m) })
	})
}

// addMembers adds the option of the remaining members. The operator reads their logs after it has stopped them.
func (l *QuorumLoss) addMembers(v view, survivors []survivor) {
	option := RecoveryOption{Source: state.RecoverMembers}
	facts := []string{string(option.Source)}
	var names, unknown []string
	for _, left := range survivors {
		facts = append(facts, left.Name, string(left.claim.UID), fmt.Sprint(left.revision))
		names = append(names, left.Name)
		option.Revision = max(option.Revision, left.revision)
		if left.revision == 0 {
			unknown = append(unknown, left.Name)
		}
		option.MayBeProven = option.MayBeProven || evidence.MayProveNoLoss(v.o.State, etcdcluster.FormatID(left.ID()), left.claim.CreationTime)
	}
	option.Token = l.token(v, facts)
	option.Text = fmt.Sprintf("the data of %s with revision %d or a higher one: %s", strings.Join(names, " or "), option.Revision, l.describeLoss(option.Revision, time.Time{}))
	if len(unknown) > 0 {
		option.Unread = "the revision of " + strings.Join(unknown, " and ") + " is not known yet"
		option.Text = "the data of " + strings.Join(names, " or ")
	}
	switch {
	case option.Unread != "":
		option.Unusable = option.Unread
	case !helper.IsStoreConfigured(v.etcd):
		option.Unusable = "there is no backup store through which a member could get this data; recover it with etcd-helper"
	case !v.o.CanInspect:
		option.Unusable = "the image of etcd-helper is not configured"
	}
	if option.MayBeProven {
		option.Text += ". A quorum responded after the first loss: the log may prove that nothing is lost"
	}
	l.Options = append(l.Options, option)
}

// addStore adds the option of the backup store.
func (l *QuorumLoss) addStore(v view) {
	option, at := RecoveryOption{Source: state.RecoverStore}, time.Time{}
	for _, lease := range []etcdcluster.Lease{v.o.FullSnapshotLease, v.o.DeltaSnapshotLease} {
		if revision := lease.Revision(); revision > option.Revision && !v.o.IsElsewhere(lease) {
			option.Revision, at = revision, lease.RenewTime
		}
	}
	option.Token = l.token(v, []string{string(option.Source), fmt.Sprint(option.Revision), v.o.StoreLocation})
	option.Text = fmt.Sprintf("the snapshots with revision %d%s: %s", option.Revision, inTime(" of ", at, ""), l.describeLoss(option.Revision, at))
	if option.GivenUp = evidence.MayRestoreLost(v.o, option.Revision); option.GivenUp != "" {
		option.Text = fmt.Sprintf("the snapshots with revision %d%s. They may contain writes that were given up, and may lack later ones: %s", option.Revision, inTime(" of ", at, ""), option.GivenUp)
	}
	switch {
	case option.Revision == 0 || v.o.FullSnapshotLease.Revision() == 0 || v.o.IsElsewhere(v.o.FullSnapshotLease):
		option.Unusable = fmt.Sprintf("Lease %s records no full snapshot in this store", helper.FullSnapshotLeaseName(v.etcd))
	case !v.o.CanInspect:
		option.Unusable = "the image of etcd-helper is not configured"
	}
	l.Options = append(l.Options, option)
}

// describeLoss describes what a recovery from a revision loses, and what is not known.
func (l *QuorumLoss) describeLoss(revision int64, at time.Time) string {
	text := fmt.Sprintf("%d of the known revisions are lost", max(l.Known-revision, 0))
	if l.Known > revision && !at.IsZero() {
		text += ", these are the writes after " + stamp(at)
	}
	if l.LastRead.IsZero() {
		return text + "; how many other acknowledged writes are lost is not known"
	}

	return text + "; acknowledged writes after " + stamp(l.LastRead) + ", when a quorum last returned a recorded revision, may be lost too"
}

// token is a hash of the facts of an option.
func (l *QuorumLoss) token(v view, facts []string) string {
	facts = append(facts, string(v.etcd.UID), fmt.Sprint(l.Known), fmt.Sprint(l.Votes))
	if l.Recovery != nil && l.Recovery.Withdrawn != "" {
		facts = append(facts, l.Recovery.Token) // an annotation that is left does not choose again
	}
	sum := sha256.Sum256([]byte(strings.Join(append(facts, l.Left...), "\n")))

	return facts[0] + "-" + hex.EncodeToString(sum[:4])
}

// Option returns the option with the token. Nil: there is none.
func (l *QuorumLoss) Option(token string) *RecoveryOption {
	index := slices.IndexFunc(l.Options, func(option RecoveryOption) bool { return option.Token == token })
	if index < 0 {
		return nil
	}

	return &l.Options[index]
}

// usable returns the option with the source that the recovery policy may choose. Nil: there is none.
func (l *QuorumLoss) usable(source state.RecoverySource) *RecoveryOption {
	index := slices.IndexFunc(l.Options, func(option RecoveryOption) bool {
		return option.Source == source && option.Unusable == "" && option.GivenUp == ""
	})
	if index < 0 {
		return nil
	}

	return &l.Options[index]
}

// unread returns why the revision of an option is not known yet. Empty: all are known.
func (l *QuorumLoss) unread() string {
	for _, option := range l.Options {
		if option.Unread != "" {
			return option.Unread
		}
	}

	return ""
}

// String lists the options for messages.
func (l *QuorumLoss) String() string {
	var sentences []string
	for _, option := range l.Options {
		switch {
		case option.Unusable != "":
			sentences = append(sentences, fmt.Sprintf("%s (not possible: %s): %s", option.Source, option.Unusable, option.Text))
		case l.Policy == druidv1alpha1.RecoveryPolicyNever:
			sentences = append(sentences, fmt.Sprintf("%s: %s", option.Source, option.Text))
		default:
			sentences = append(sentences, fmt.Sprintf("%s (token %s): %s", option.Source, option.Token, option.Text))
		}
	}

	if l.Recovery != nil && l.Recovery.Withdrawn != "" {
		sentences = append(sentences, "The last recovery was withdrawn: "+l.Recovery.Withdrawn)
	}
	if l.RolledBack != nil {
		sentences = append(sentences, fmt.Sprintf("The cluster has lost acknowledged writes before: a quorum returned revision %d, and a higher one before. The recovery policy chooses nothing", l.RolledBack.Revision))
	}
	if l.Inconsistency != nil {
		sentences = append(sentences, "Not all members have the same data: "+consistency.Describe(*l.Inconsistency))
	}

	return strings.Join(sentences, ". ")
}

// IsRecoverable is true if an option can be chosen.
func (l *QuorumLoss) IsRecoverable() bool {
	return slices.ContainsFunc(l.Options, func(option RecoveryOption) bool { return option.Unusable == "" })
}
