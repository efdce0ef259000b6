// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Input is the input of all conditions.
type Input struct {
	// Etcd is the Etcd in its canonical form, with its previous status.
	Etcd *druidv1alpha1.Etcd
	// Observation is the observation of its cluster.
	Observation etcdcluster.Observation
	// Thresholds are the thresholds for the state of members.
	Thresholds Thresholds
	// QuotaReachedIn is the time until the keys need the quota of the databases. 0: it cannot be foreseen.
	QuotaReachedIn time.Duration
	// ExcessSince is since when far more full snapshots are taken than the schedule requests. Zero: they are not.
	ExcessSince time.Time
	// DefragmentationRefusal is why no planned defragmentation starts although a database file could shrink. Empty: none is refused.
	DefragmentationRefusal string
	// Now is the time of the observation.
	Now time.Time
}

// memberWithState is a member with its state.
type memberWithState struct {
	etcdcluster.Member
	MemberState
}

// isSurging is true while the only member is replaced through a temporary second member.
func (in Input) isSurging() bool { return in.Observation.State.Surge.IsActive() }

// isMigrating is true while the volumes of a multi-member cluster are replaced with the help of an extra member.
func (in Input) isMigrating() bool { return in.Observation.State.Migration.IsActive() }

// members returns the members with a known state, see size.
func (in Input) members() []memberWithState {
	var withState []memberWithState
	for _, member := range etcdcluster.MembersOf(in.Etcd, in.Observation, in.size()) {
		if state, known := StateOf(member, in.Thresholds, in.Now); known {
			withState = append(withState, memberWithState{member, state})
		}
	}

	return withState
}

// namesWith returns the names of the members with the status, ordered by ordinal.
func namesWith(members []memberWithState, status druidv1alpha1.EtcdMemberConditionStatus) []string {
	var names []string
	for _, member := range members {
		if member.Status == status {
			names = append(names, member.Name)
		}
	}

	return names
}

// size is the number of desired members, and of those with higher ordinals that vote until they are removed. It includes the temporary member of a
// surge.
func (in Input) size() int32 {
	size, members := in.Etcd.Spec.Replicas, etcdcluster.VotingMembers(in.Etcd, in.Observation)
	switch {
	case in.isSurging():
		return etcdcluster.SurgeSize
	case size == 0:
		return 0
	}
	for _, member := range members {
		if listed := member.Listed; listed != nil && !listed.Learner && member.Ordinal >= int(size) {
			size = int32(member.Ordinal) + 1 // #nosec G115 -- an ordinal
		}
	}

	return size
}

func (in Input) isHibernated() bool { return helper.IsHibernated(in.Etcd) }

// condition returns a condition without times. Merge sets the times.
func condition(conditionType druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus, reason, message string) *druidv1alpha1.Condition {
	return &druidv1alpha1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}

// stamp returns a time in the format of messages.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
