// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Ready is what clients see. It is True if a quorum of the voting members is healthy, and a pod is an endpoint of the client Service. It is False if no
// quorum is possible, and Unknown if that depends on members with an unknown state. The member list of etcd has the voting members, so that a scale-up
// does not lose the quorum. A new cluster needs a quorum of the requested members. Without a member list the size in the spec applies, and never the
// number of observed members.
func Ready(in Input) *druidv1alpha1.Condition {
	ready := func(status druidv1alpha1.ConditionStatus, reason, message string) *druidv1alpha1.Condition {
		return condition(druidv1alpha1.ConditionTypeReady, status, reason, message)
	}
	members := in.members()
	if len(members) == 0 {
		return ready(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonNoMembersInStatus, "No member has been seen yet"+podProblems(in))
	}
	if failure := in.handshakeFailure(); failure != "" {
		return ready(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonCertificatesInvalid, "No client can complete a TLS handshake with a member: "+failure)
	}
	healthy := len(namesWith(members, druidv1alpha1.EtcdMemberStatusReady))
	unknown := namesWith(members, druidv1alpha1.EtcdMemberStatusUnknown)
	voters := VotersFor(in.Etcd, in.Observation)
	required := voters
	if helper.IsCreating(in.Etcd) {
		required = max(voters, int(in.size()))
	}
	quorum := fmt.Sprintf("%d of %d members are healthy, the quorum is %d", healthy, required, etcdcluster.QuorumOf(required))
	if voters < int(in.size()) {
		quorum += fmt.Sprintf("; the others of %d are not voting members yet", in.size())
	}
	switch {
	case !etcdcluster.IsQuorate(healthy+len(unknown), voters):
		return ready(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonQuorumLost, quorum+podProblems(in))
	case !etcdcluster.IsQuorate(healthy, voters):
		return ready(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, quorum+"; not known of "+strings.Join(unknown, ", "))
	case !etcdcluster.IsQuorate(healthy, required):
		return ready(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonCreating, quorum+podProblems(in))
	case in.hasReadyEndpoint():
		return ready(druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonQuorate, quorum)
	}
	quorum += "; no pod is ready, so that the client Service has no endpoint"
	if slices.ContainsFunc(in.Observation.Etcd.Members, func(m etcdcluster.EndpointStatus) bool { return m.ReadRefused }) {
		return ready(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonAuthenticationRequired,
			quorum+": etcd refuses reads without a user, also those of the readiness probes: disable the authentication of etcd")
	}

	return ready(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNoReadyEndpoint, quorum+podProblems(in))
}

// hasReadyEndpoint is true if the client Service selects a ready pod. It is also true if the pods are not known, or managed externally.
func (in Input) hasReadyEndpoint() bool {
	isEndpoint := func(pod etcdcluster.Pod) bool { return pod.Ready && !pod.Deleting && !pod.Excluded }

	return !helper.ManagesPods(in.Etcd) || in.Observation.Failure(etcdcluster.SectionPods) != "" || slices.ContainsFunc(in.Observation.Pods, isEndpoint)
}

// handshakeFailure returns why no member completes a TLS handshake. The operator connects as clients do. Empty: one does, or has another problem.
func (in Input) handshakeFailure() string {
	responses := in.Observation.Etcd.Members
	if len(responses) == 0 || slices.ContainsFunc(responses, func(m etcdcluster.EndpointStatus) bool { return !m.HandshakeFailed }) {
		return ""
	}

	return responses[0].Error
}

// podProblems returns why pods do not start, as the end of a message. Empty: no problem is known.
func podProblems(in Input) string {
	problems := in.Observation.StartProblems()
	if len(problems) == 0 {
		return ""
	}

	return ": " + strings.Join(problems, "; ")
}
