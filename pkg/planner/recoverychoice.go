// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// This file contains the choice of an option for a recovery, by a user or by the recovery policy.

// EvaluateRecovery evaluates the annotation that chooses an option. The option is nil if none is chosen. ignored is why the annotation has no
// effect. Neither: there is no annotation, or facts are missing.
func EvaluateRecovery(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (chosen *RecoveryOption, ignored string) {
	token, found := etcd.Annotations[druidv1alpha1.RecoverAnnotation]
	if !found || unreadForRestore(o) != "" || helper.IsHibernated(etcd) {
		return nil, ""
	}
	loss := QuorumLossOf(etcd, o, now)
	if loss == nil {
		return nil, "the quorum is not lost forever, or the operator recovers the cluster already"
	}
	option := loss.Option(token)
	switch {
	case loss.Policy == druidv1alpha1.RecoveryPolicyNever:
		return nil, "the recovery policy is Never"
	case option == nil:
		return nil, fmt.Sprintf("no option has the token %s, for example because the facts have changed; the condition %s contains the tokens", token, druidv1alpha1.ConditionTypeQuorumRecoverable)
	case option.Unusable != "":
		return nil, option.Unusable
	}
	if served := possiblyHealthyMember(etcd, o); served != "" {
		return nil, served
	}

	return option, ""
}

// beginRecovery begins the recovery of a cluster whose quorum is lost forever, if a user or the recovery policy has chosen an option.
func beginRecovery(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (plan.Plan, bool) {
	loss := QuorumLossOf(etcd, o, now)
	if loss == nil || loss.Recovery == nil || possiblyHealthyMember(etcd, o) != "" {
		return plan.Plan{}, false
	}
	option, _ := EvaluateRecovery(etcd, o, now)
	by, byPolicy, proofRequired := "a user", false, false
	if option == nil {
		if option, _ = choose(loss, o, now); option == nil {
			return plan.Plan{}, false
		}
		by, byPolicy, proofRequired = "the recovery policy "+string(loss.Policy), true, loss.Policy == druidv1alpha1.RecoveryPolicyAutoIfNoLoss
	}
	recovery := &state.Recovery{
		LostAt: loss.LostAt, Source: option.Source, Token: option.Token, By: by, ByPolicy: byPolicy, ChosenAt: now, Revision: option.Revision, Known: loss.Known, ProofRequired: proofRequired,
	}

	return plan.Plan{
		Stage: plan.StageRestore, Render: true, ClusterSize: o.State.Size, Restore: state.RestoreRecover, Recovery: recovery,
		Reason:   fmt.Sprintf("%s: %s; all members are stopped first", recovery, option.Text),
		WaitsFor: "all pods to be gone",
	}, true
}

// choose returns the option that the recovery policy chooses now. Nil: none. The second result is why it waits. Empty: a user has to choose.
func choose(loss *QuorumLoss, o etcdcluster.Observation, now time.Time) (*RecoveryOption, string) {
	option, waits := optionOfPolicy(loss)
	until := loss.earliestChoice(o, now)
	switch {
	case option == nil:
		return nil, waits
	case tooManyWithoutQuorum(o) != "":
		return nil, tooManyWithoutQuorum(o)
	case loss.LostAt.IsZero() || now.Before(until):
		return nil, fmt.Sprintf("the operator recovers the cluster from its %s at %s", option.Source, stamp(until))
	default:
		return option, ""
	}
}

// earliestChoice returns when the recovery policy chooses at the earliest: a dwell time after the loss, and after the start of the operator. Before that,
// the operator may not know how many other clusters have no quorum.
func (l *QuorumLoss) earliestChoice(o etcdcluster.Observation, now time.Time) time.Time {
	from := cmp.Or(l.LostAt, now)
	if o.OperatorStart.After(from) {
		from = o.OperatorStart
	}

	return from.Add(o.RecoveryDwellTime)
}

// tooManyWithoutQuorum is why no recovery policy chooses while too many clusters have no quorum. Empty: it may.
func tooManyWithoutQuorum(o etcdcluster.Observation) string {
	others := o.ClustersWithoutQuorum
	if len(others)+1 <= o.RecoveryMaxClusters {
		return ""
	}
	const shown = 3
	names := strings.Join(others[:min(shown, len(others))], ", ")
	if len(others) > shown {
		names += fmt.Sprintf(" and %d others", len(others)-shown)
	}

	return fmt.Sprintf("%d clusters have lost their quorum at about the same time, more than the %d of controllers.etcd.recovery.maxClusters; "+
		"this may be a fault of the network or of the nodes (%s)", len(others)+1, o.RecoveryMaxClusters, cmp.Or(names, "only this one"))
}

// optionOfPolicy returns the option that the recovery policy allows the operator to choose. Nil: none. The second result is why it waits. Empty: a user
// has to choose.
func optionOfPolicy(loss *QuorumLoss) (*RecoveryOption, string) {
	members, store := loss.usable(state.RecoverMembers), loss.usable(state.RecoverStore)
	switch {
	case loss.Recovery != nil && loss.Recovery.Withdrawn != "":
		return nil, "" // once for each loss of a quorum
	case loss.RolledBack != nil:
		return nil, "" // a user decides which writes are given up
	case loss.Inconsistency != nil:
		return nil, "" // the operator does not know whether the remaining data is correct
	case loss.Policy == druidv1alpha1.RecoveryPolicyAutoIfNoLoss && members != nil && members.MayBeProven:
		return members, ""
	case loss.Policy != druidv1alpha1.RecoveryPolicyAuto:
		return nil, ""
	case loss.unread() != "":
		return nil, loss.unread() // it may be higher than that of the store
	case members != nil && store != nil && store.Revision > members.Revision:
		return store, ""
	default:
		return cmp.Or(members, store), ""
	}
}

// withQuorumLoss adds the options to a plan that does nothing, and when the recovery policy chooses one of them.
func withQuorumLoss(v view, p plan.Plan, loss *QuorumLoss) plan.Plan {
	p.Recovery = loss.Recovery
	if p.Recovery == nil {
		p.Recovery = &state.Recovery{LostAt: v.now}
		loss.LostAt = v.now
	}
	var tokens []string
	for _, option := range loss.Options {
		if option.Unusable == "" {
			tokens = append(tokens, option.Token)
		}
	}
	_, waits := choose(loss, v.o, v.now)
	if len(tokens) > 0 && loss.Policy != druidv1alpha1.RecoveryPolicyNever {
		p.WaitsFor += fmt.Sprintf(", or the annotation %s with %s: see the condition %s", druidv1alpha1.RecoverAnnotation, strings.Join(tokens, " or "), druidv1alpha1.ConditionTypeQuorumRecoverable)
	}
	if waits != "" {
		p.WaitsFor += "; " + waits
		if after := loss.earliestChoice(v.o, v.now).Sub(v.now); after > 0 {
			p.RequeueAfter = after
		}
	}

	return p
}

// WaitsForChoice returns why the operator does not choose an option now. Empty: the policy leaves the choice to a user.
func (l *QuorumLoss) WaitsForChoice(o etcdcluster.Observation, now time.Time) string {
	_, waits := choose(l, o, now)

	return waits
}

// keepRecovery keeps the record of a recovery while no member is healthy: a withdrawn one must not begin again by itself. Before a choice, the record
// ends with the loss, so that the dwell time of a later one begins again.
func keepRecovery(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, p plan.Plan, now time.Time) plan.Plan {
	recorded := currentRecovery(o, now)
	if p.Recovery != nil || recorded == nil {
		return p
	}
	isCompleted := p.Restore == state.RestoreStart || p.Stage == plan.StageDone || etcdcluster.HealthyVoters(etcdcluster.VotingMembers(etcd, o)) > 0
	hasEnded := recorded.Source == "" && recorded.Withdrawn == "" && unreadForRestore(o) == "" && QuorumLossOf(etcd, o, now) == nil
	if !isCompleted && !hasEnded {
		p.Recovery = recorded
	}

	return p
}
