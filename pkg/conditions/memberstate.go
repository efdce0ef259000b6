// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Reasons of a member's state that is read from etcd. The API package has the reasons that are read from Leases.
const (
	// MemberReasonHealthy means that the member completed a linearizable read.
	MemberReasonHealthy = "Healthy"
	// MemberReasonLearner means that the member is a learner and not a voting member.
	MemberReasonLearner = "Learner"
	// MemberReasonNoLeader means that the member responds, but completes no linearizable reads because it has no leader.
	MemberReasonNoLeader = "NoLeader"
	// MemberReasonUnreachable means that the member does not respond while another member does.
	MemberReasonUnreachable = "Unreachable"
	// MemberReasonPodMissing means that the member has no pod.
	MemberReasonPodMissing = "PodMissing"
	// MemberReasonPodTerminating means that the pod of the member is terminating. Its etcd is not queried any more.
	MemberReasonPodTerminating = "PodTerminating"
)

// Thresholds are the times after which a missing Lease renewal changes the state of a member.
type Thresholds struct {
	// Unknown is the time since the last renewal after which the state is Unknown.
	Unknown time.Duration
	// NotReady is the additional time after which the state is NotReady.
	NotReady time.Duration
}

// MemberState is the state of a member and its reason.
type MemberState struct {
	// Status is Ready, NotReady or Unknown.
	Status druidv1alpha1.EtcdMemberConditionStatus
	// Reason is a machine-readable reason.
	Reason string
}

// StateOf returns the state of a member at the given time. The response of etcd has precedence over the pod, and the pod over
// the Lease. It returns false if nothing is known, for example for a member that never started. A Lease with a holder and
// without a renew time belongs to a voting member. The operator records the member ID after the promotion, before the sidecar
// renews the Lease. Such a Lease never makes a member Ready.
func StateOf(m etcdcluster.Member, thresholds Thresholds, now time.Time) (MemberState, bool) {
	if m.Endpoint != nil && m.Endpoint.Reachable {
		return stateFromEtcd(*m.Endpoint), true
	}
	if m.Heartbeat == nil || m.ManagedExternally && m.Lease.RenewTime.IsZero() {
		return MemberState{}, false
	}
	if !m.ManagedExternally {
		if state, decided := stateFromPod(m.Pod); decided {
			return state, true
		}
	}

	return stateFromLease(m, thresholds, now), true
}

func stateFromEtcd(status etcdcluster.EndpointStatus) MemberState {
	switch {
	case status.Learner:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, MemberReasonLearner}
	case !status.Healthy:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, MemberReasonNoLeader}
	default:
		return MemberState{druidv1alpha1.EtcdMemberStatusReady, MemberReasonHealthy}
	}
}

func stateFromPod(pod *etcdcluster.Pod) (MemberState, bool) {
	switch {
	case pod == nil:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, MemberReasonPodMissing}, true
	case pod.Deleting:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, MemberReasonPodTerminating}, true
	case !pod.ContainersReady:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, druidv1alpha1.MemberReasonContainersNotReady}, true
	default:
		return MemberState{}, false
	}
}

func stateFromLease(m etcdcluster.Member, thresholds Thresholds, now time.Time) MemberState {
	renewed := m.Lease.RenewTime
	if renewed.IsZero() {
		renewed = m.Pod.SidecarStartedAt()
	}
	late := now.Sub(renewed)
	isUnresponsive := m.Endpoint != nil && m.ClusterReachable
	switch {
	case isUnresponsive && m.Pod != nil && !m.Pod.Ready: // the API server confirms it after a longer time
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, MemberReasonUnreachable}
	case late > thresholds.Unknown+thresholds.NotReady:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, druidv1alpha1.MemberReasonUnknownGracePeriodExceeded}
	case late > thresholds.Unknown:
		return MemberState{druidv1alpha1.EtcdMemberStatusUnknown, druidv1alpha1.MemberReasonLeaseExpired}
	case isUnresponsive:
		return MemberState{druidv1alpha1.EtcdMemberStatusUnknown, MemberReasonUnreachable}
	case m.Lease.RenewTime.IsZero():
		return MemberState{druidv1alpha1.EtcdMemberStatusUnknown, druidv1alpha1.MemberReasonLeaseExpired}
	default:
		return MemberState{druidv1alpha1.EtcdMemberStatusReady, druidv1alpha1.MemberReasonLeaseSucceeded}
	}
}
