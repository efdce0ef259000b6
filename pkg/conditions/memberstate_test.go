// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var _ = DescribeTable("StateOf",
	func(change func(*etcdcluster.Member), status, reason string) {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		member := etcdcluster.Member{
			Name:      "main-0",
			Pod:       &etcdcluster.Pod{Name: "main-0", Ready: true, ContainersReady: true},
			Lease:     &etcdcluster.Lease{Exists: true, RenewTime: now.Add(-10 * time.Second)},
			Heartbeat: &etcdcluster.Heartbeat{MemberID: 1},
		}
		change(&member)
		state, known := conditions.StateOf(member, conditions.Thresholds{Unknown: time.Minute, NotReady: 5 * time.Minute}, now)
		Expect(known).To(Equal(status != ""))
		Expect(string(state.Status)).To(Equal(status))
		Expect(state.Reason).To(Equal(reason))
	},
	Entry("is ready while it renews its lease", func(*etcdcluster.Member) {}, "Ready", "LeaseSucceeded"),
	Entry("is unknown when it is late", late(61*time.Second), "Unknown", "LeaseExpired"),
	Entry("is not yet unknown at the threshold", late(60*time.Second), "Ready", "LeaseSucceeded"),
	Entry("is not ready when it is late for both thresholds", late(6*time.Minute+time.Second), "NotReady", "UnknownGracePeriodExceeded"),
	Entry("is not ready at once when its containers are not", func(m *etcdcluster.Member) { m.Pod.ContainersReady = false }, "NotReady", "ContainersNotReady"),
	Entry("is not ready at once when its pod is missing", func(m *etcdcluster.Member) { m.Pod = nil }, "NotReady", "PodMissing"),
	Entry("is not ready while its pod is terminating, also on an unreachable node", func(m *etcdcluster.Member) { m.Pod.Deleting = true }, "NotReady", "PodTerminating"),
	Entry("has the state of its Lease if it is managed externally", func(m *etcdcluster.Member) { m.Pod, m.ManagedExternally = nil, true }, "Ready", "LeaseSucceeded"),
	Entry("is ready if its etcd is healthy, independent of its Lease", func(m *etcdcluster.Member) {
		m.Endpoint = &etcdcluster.EndpointStatus{Reachable: true, Healthy: true}
		m.Lease.RenewTime = time.Time{}
	}, "Ready", "Healthy"),
	Entry("is not ready if its etcd has no leader, independent of its Lease", func(m *etcdcluster.Member) { m.Endpoint = &etcdcluster.EndpointStatus{Reachable: true} }, "NotReady", "NoLeader"),
	Entry("is not ready while it is a learner", func(m *etcdcluster.Member) { m.Endpoint = &etcdcluster.EndpointStatus{Reachable: true, Learner: true} }, "NotReady", "Learner"),
	Entry("is unknown immediately if only this member does not respond", func(m *etcdcluster.Member) { m.Endpoint, m.ClusterReachable = &etcdcluster.EndpointStatus{}, true }, "Unknown", "Unreachable"),
	Entry("is not ready if only this member does not respond, and its pod is not ready", func(m *etcdcluster.Member) {
		m.Endpoint, m.ClusterReachable, m.Pod.Ready = &etcdcluster.EndpointStatus{}, true, false
	}, "NotReady", "Unreachable"),
	Entry("has the state of its Lease if no member responds, because the network may be the reason", func(m *etcdcluster.Member) {
		m.Endpoint = &etcdcluster.EndpointStatus{}
		late(16 * time.Second)(m)
	}, "Ready", "LeaseSucceeded"),
	Entry("has the state of its Lease if its etcd was not queried, for example without an address", func(m *etcdcluster.Member) {
		m.ClusterReachable = true
		late(16 * time.Second)(m)
	}, "Ready", "LeaseSucceeded"),
	Entry("is unknown immediately if only this voting member does not respond before its sidecar renewed the Lease", func(m *etcdcluster.Member) {
		neverRenewed(10 * time.Second)(m)
		m.Endpoint, m.ClusterReachable = &etcdcluster.EndpointStatus{}, true
	}, "Unknown", "Unreachable"),
	Entry("is not ready when the pod of a voter is missing before its sidecar renewed the lease", func(m *etcdcluster.Member) {
		neverRenewed(10 * time.Second)(m)
		m.Pod = nil
	}, "NotReady", "PodMissing"),
	Entry("is unknown when nothing but the missing renewal is known of a voter", neverRenewed(10*time.Second), "Unknown", "LeaseExpired"),
	Entry("is unknown when the sidecar of a voter runs for longer than the threshold and never renewed the lease", neverRenewed(61*time.Second), "Unknown", "LeaseExpired"),
	Entry("is not known without a pod before an external voter renewed its lease", func(m *etcdcluster.Member) {
		neverRenewed(10 * time.Second)(m)
		m.Pod, m.ManagedExternally = nil, true
	}, "", ""),
	Entry("is not known before its first observation", func(m *etcdcluster.Member) { m.Lease, m.Heartbeat = nil, nil }, "", ""),
	Entry("is not known before its first heartbeat", func(m *etcdcluster.Member) { m.Lease.RenewTime, m.Heartbeat = time.Time{}, nil }, "", ""),
)

func late(by time.Duration) func(*etcdcluster.Member) {
	return func(m *etcdcluster.Member) { m.Lease.RenewTime = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(-by) }
}

// neverRenewed is a voting member whose identity the operator wrote into the Lease. Its sidecar started the given time ago.
func neverRenewed(age time.Duration) func(*etcdcluster.Member) {
	return func(m *etcdcluster.Member) {
		m.Lease.RenewTime = time.Time{}
		m.Pod.CreationTime = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(-age)
	}
}
