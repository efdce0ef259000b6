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

// Input is what conditions are computed from.
type Input struct {
	// Etcd in its canonical form, with the status of before.
	Etcd *druidv1alpha1.Etcd
	// Observation of its cluster.
	Observation etcdcluster.Observation
	// Thresholds for the state of members.
	Thresholds Thresholds
	// Now is the time of the observation.
	Now time.Time
}

// memberWithState is a member with its state.
type memberWithState struct {
	etcdcluster.Member
	MemberState
}

// members are the desired members of which something is known, with their states.
func (in Input) members() []memberWithState {
	var withState []memberWithState
	for _, member := range etcdcluster.MembersFor(in.Etcd, in.Observation) {
		if state, known := StateOf(member, in.Thresholds, in.Now); known {
			withState = append(withState, memberWithState{member, state})
		}
	}

	return withState
}

// namesWith are the names of the members with the status, in order of their ordinals.
func namesWith(members []memberWithState, status druidv1alpha1.EtcdMemberConditionStatus) []string {
	var names []string
	for _, member := range members {
		if member.Status == status {
			names = append(names, member.Name)
		}
	}

	return names
}

func (in Input) size() int { return int(in.Etcd.Spec.Replicas) }

func (in Input) isHibernated() bool { return helper.IsHibernated(in.Etcd) }

// condition is what a file of this package returns: the times are set by Merge.
func condition(conditionType druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus, reason, message string) *druidv1alpha1.Condition {
	return &druidv1alpha1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}

// stamp is how messages name a time.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
