// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// checkRecoveryBegins checks that a recovery begins only if a user or the recovery policy has chosen it, and while no member is healthy.
func (s *scenario) checkRecoveryBegins(p plan.Plan) {
	if p.Restore != state.RestoreRecover || s.Objects.State.Restore == state.RestoreRecover {
		return
	}
	policy, isChosen := helper.RecoveryPolicy(s.Etcd), s.Etcd.Annotations[druidv1alpha1.RecoverAnnotation] == p.Recovery.Token
	if s.Leader != 0 {
		s.violated("a recovery begins, and member %x leads", s.Leader)
	}
	switch {
	case policy == druidv1alpha1.RecoveryPolicyNever:
		s.violated("a recovery begins, and the policy is Never")
	case isChosen:
	case policy == druidv1alpha1.RecoveryPolicyAsk || policy == druidv1alpha1.RecoveryPolicyAutoIfNoLoss && !p.Recovery.ProofRequired:
		s.violated("a recovery begins, and no user has chosen it")
	case s.operator.Now().Sub(s.operator.Start) < s.operator.Config.RecoveryDwellTime, s.operator.Now().Sub(p.Recovery.LostAt) < s.operator.Config.RecoveryDwellTime:
		s.violated("a recovery begins %s after the loss, and %s after the start of the operator", s.operator.Now().Sub(p.Recovery.LostAt), s.operator.Now().Sub(s.operator.Start))
	}
}

// checkRecoverData checks that the data has every acknowledged write if the operator regards that as proven. Otherwise the data has all writes up to
// the stated revision.
func (s *scenario) checkRecoverData(step plan.RecoverData) {
	contains := s.Store.Contains
	if step.Claim != "" {
		contains = s.Volumes[step.Claim].Data.Contains
		if s.Volumes[step.Claim].Data.Revision < step.MinRevision {
			return // etcd-helper refuses it
		}
	}
	if len(s.Objects.Pods) > 0 {
		s.violated("data is stored while there are pods")
	}
	write := s.invariants.acknowledged
	if step.Bump > 0 && write.Revision > step.MinRevision {
		write = write.At(step.MinRevision)
	}
	if !contains(write) {
		s.violated("the data of %q lacks the acknowledged write with revision %d, bumped by %d, with the stated revision %d", step.Claim, write.Revision, step.Bump, step.MinRevision)
	}
}

// Write writes keys, and keeps the last acknowledged write.
func (s *scenario) Write(count int) bool {
	if !s.Cluster.Write(count) {
		return false
	}
	s.invariants.acknowledged = s.Data

	return true
}
