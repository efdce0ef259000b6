// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Reasons of the state of a member that come from asking etcd itself. Those that come from leases are in the API.
const (
	// MemberReasonServes means that the member answered a linearizable read.
	MemberReasonServes = "Serves"
	// MemberReasonLearner means that the member has no vote yet.
	MemberReasonLearner = "Learner"
	// MemberReasonNotServing means that the member answers, but not with linearizable reads: it has no leader.
	MemberReasonNotServing = "NotServing"
	// MemberReasonUnreachable means that the member does not answer while another does.
	MemberReasonUnreachable = "Unreachable"
	// MemberReasonPodMissing means that the member has no pod.
	MemberReasonPodMissing = "PodMissing"
	// MemberReasonPodDeleting means that the pod of the member is on its way out: it is not asked any more.
	MemberReasonPodDeleting = "PodDeleting"
)

// Thresholds say from when on silence of a member means something.
type Thresholds struct {
	// Unknown is how long a member may be late with its lease before it counts as unknown.
	Unknown time.Duration
	// NotReady is how much longer, until it counts as not ready.
	NotReady time.Duration
}

// MemberState is the state of a member with its reason.
type MemberState struct {
	// Status is Ready, NotReady or Unknown.
	Status druidv1alpha1.EtcdMemberConditionStatus
	// Reason is a word for programs.
	Reason string
}

// StateOf judges a member at the given time. What the member says itself comes first, then what its pod shows, then its
// lease. False: nothing is known about it, as for a member that never started. A lease with a holder and without a renew time belongs
// to a voter: the operator records the member ID as soon as the member has its vote, before the sidecar renews the lease. Such a lease
// never makes a member Ready.
func StateOf(m etcdcluster.Member, thresholds Thresholds, now time.Time) (MemberState, bool) {
	if m.Answer != nil && m.Answer.Reachable {
		return stateFromEtcd(*m.Answer), true
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

func stateFromEtcd(answer etcdcluster.MemberAnswer) MemberState {
	switch {
	case answer.Learner:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, MemberReasonLearner}
	case !answer.Serves:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, MemberReasonNotServing}
	default:
		return MemberState{druidv1alpha1.EtcdMemberStatusReady, MemberReasonServes}
	}
}

func stateFromPod(pod *etcdcluster.Pod) (MemberState, bool) {
	switch {
	case pod == nil:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, MemberReasonPodMissing}, true
	case pod.Deleting:
		return MemberState{druidv1alpha1.EtcdMemberStatusNotReady, MemberReasonPodDeleting}, true
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
	isUnresponsive := m.Answer != nil && m.WayOpen
	switch {
	case isUnresponsive && m.Pod != nil && !m.Pod.Ready: // and so says the API server, who waited longer
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
