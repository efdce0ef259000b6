// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
)

// AllMembersReady is True if every desired member is healthy, and every member that votes until it is removed.
func AllMembersReady(in Input) *druidv1alpha1.Condition {
	members := in.members()
	if len(members) == 0 {
		return condition(druidv1alpha1.ConditionTypeAllMembersReady, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonNoMembersInStatus,
			"No member has been seen yet"+podProblems(in))
	}
	ready := len(namesWith(members, druidv1alpha1.EtcdMemberStatusReady))
	if in.isSurging() && ready >= VotersFor(in.Etcd, in.Observation) {
		return condition(druidv1alpha1.ConditionTypeAllMembersReady, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonAllMembersReady,
			"All voting members are healthy; the only member is being replaced through a temporary second member, because "+in.Observation.State.Surge.Cause)
	}
	if in.isMigrating() && ready >= VotersFor(in.Etcd, in.Observation) {
		return condition(druidv1alpha1.ConditionTypeAllMembersReady, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonAllMembersReady,
			"All voting members are healthy; volumes are being replaced with the help of an extra member")
	}
	if ready == int(in.size()) {
		return condition(druidv1alpha1.ConditionTypeAllMembersReady, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonAllMembersReady,
			"All members are healthy")
	}
	if blocked := peers.FindBlockedSnapshot(in.Etcd, in.Observation, in.Now); blocked != nil {
		return condition(druidv1alpha1.ConditionTypeAllMembersReady, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonRaftSnapshotBlocked,
			fmt.Sprintf("%s; %s: disable peer TLS until %s has recovered", strings.Join(in.notReady(members), "; "), blocked, blocked.Member.Name)+podProblems(in))
	}

	return condition(druidv1alpha1.ConditionTypeAllMembersReady, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNotAllMembersReady,
		strings.Join(in.notReady(members), "; ")+podProblems(in))
}

// notReady returns a sentence for each desired member that is not ready.
func (in Input) notReady(members []memberWithState) []string {
	states := map[string]memberWithState{}
	for _, member := range members {
		states[member.Name] = member
	}
	var sentences []string
	for _, name := range helper.MemberNames(in.Etcd, in.size()) {
		member, known := states[name]
		switch {
		case !known:
			sentences = append(sentences, "Member "+name+" has not been seen yet")
		case member.Status != druidv1alpha1.EtcdMemberStatusReady:
			sentences = append(sentences, fmt.Sprintf("Member %s is %s (%s)", name, member.Status, member.Reason))
		}
	}

	return sentences
}
