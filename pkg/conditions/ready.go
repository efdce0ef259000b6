// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Ready is True if a quorum of the voting members is healthy. It is False if no quorum is possible, and Unknown if that depends
// on members with an unknown state. The member list of etcd has the voting members, so that a scale-up does not lose the
// quorum. Without a member list the size in the spec applies, and never the number of observed members.
func Ready(in Input) *druidv1alpha1.Condition {
	members := in.members()
	if len(members) == 0 {
		return condition(druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonNoMembersInStatus,
			"No member has been seen yet"+podProblems(in))
	}
	healthy := namesWith(members, druidv1alpha1.EtcdMemberStatusReady)
	unknown := namesWith(members, druidv1alpha1.EtcdMemberStatusUnknown)
	voters := VotersFor(in.Etcd, in.Observation)
	quorum := fmt.Sprintf("%d of %d members are healthy, the quorum is %d", len(healthy), voters, etcdcluster.QuorumOf(voters))
	if voters < int(in.size()) {
		quorum += fmt.Sprintf("; the others of %d are not voting members yet", in.size())
	}
	switch {
	case etcdcluster.IsQuorate(len(healthy), voters):
		return condition(druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonQuorate, quorum)
	case etcdcluster.IsQuorate(len(healthy)+len(unknown), voters):
		return condition(druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown,
			quorum+"; not known of "+strings.Join(unknown, ", "))
	default:
		return condition(druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonQuorumLost, quorum+podProblems(in))
	}
}

// podProblems returns the known problems of the pods, as the end of a message. Empty: none.
func podProblems(in Input) string {
	var sentences []string
	for _, pod := range in.Observation.Pods {
		if sentence := pod.WaitingReason(); sentence != "" {
			sentences = append(sentences, sentence)
		}
	}
	if len(sentences) == 0 {
		return ""
	}

	return ": " + strings.Join(sentences, "; ")
}
