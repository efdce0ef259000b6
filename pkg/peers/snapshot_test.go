// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

func TestPeers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "peers Suite")
}

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// enabling returns an Etcd with three members while peer TLS is enabled. The pod of main-2 was replaced, and its etcd does not respond.
func enabling() (*druidv1alpha1.Etcd, *etcdcluster.Observation) {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Name, etcd.Namespace, etcd.Spec.Replicas = "main", "demo", 3
	o := &etcdcluster.Observation{State: state.State{Size: 3, Replicas: new(int32(3))}, StatefulSet: etcdcluster.StatefulSet{Exists: true, SpecReplicas: 3}}
	for ordinal := range 3 {
		isReplaced := ordinal == 2
		o.Pods = append(o.Pods, etcdcluster.Pod{
			Name: "main-" + strconv.Itoa(ordinal), Ordinal: ordinal, Ready: !isReplaced, PeerTLS: isReplaced, CreationTime: now.Add(-time.Hour),
			Containers: []etcdcluster.Container{{Name: etcdcluster.ContainerEtcd, State: etcdcluster.ContainerRunning, Ready: !isReplaced}},
		})
		o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{
			Ordinal: ordinal, Reachable: !isReplaced, Healthy: !isReplaced, MemberID: uint64(ordinal + 1), LeaderID: 1, RaftIndex: 20000, RaftAppliedIndex: 20000,
		})
	}

	return etcd, o
}

var _ = Describe("FindBlockedSnapshot", func() {
	It("finds a member that does not become healthy while the leader has no peer certificates", func() {
		etcd, o := enabling()
		Expect(peers.FindBlockedSnapshot(etcd, *o, now)).To(HaveField("String()",
			"leader main-0 has no peer TLS and cannot send a raft snapshot to main-2, which needs one if it was away for more than 5000 writes"))
	})

	DescribeTable("finds none",
		func(change func(*etcdcluster.Observation)) {
			etcd, o := enabling()
			change(o)
			Expect(peers.FindBlockedSnapshot(etcd, *o, now)).To(BeNil())
		},
		Entry("if the leader has peer certificates", func(o *etcdcluster.Observation) { o.Pods[0].PeerTLS = true }),
		Entry("if the member has none", func(o *etcdcluster.Observation) { o.Pods[2].PeerTLS = false }),
		Entry("if the member is healthy", func(o *etcdcluster.Observation) { o.Etcd.Members[2].Reachable, o.Etcd.Members[2].Healthy = true, true }),
		Entry("while the member may still start", func(o *etcdcluster.Observation) { o.Pods[2].CreationTime = now.Add(-119 * time.Second) }),
		Entry("if etcd does not run", func(o *etcdcluster.Observation) { o.Pods[2].Containers[0].State = etcdcluster.ContainerWaiting }),
		Entry("if the node of the member is unreachable", func(o *etcdcluster.Observation) { o.Pods[2].ContainersReady = true }),
		Entry("without a leader", func(o *etcdcluster.Observation) { o.Etcd.Members[0].LeaderID, o.Etcd.Members[0].Healthy = 0, false }),
		Entry("if the member is a few entries behind", func(o *etcdcluster.Observation) {
			o.Etcd.Members[2].Reachable, o.Etcd.Members[2].RaftAppliedIndex = true, 15000
		}),
	)

	It("finds a learner that is far behind", func() {
		etcd, o := enabling()
		o.Etcd.Members[2].Reachable, o.Etcd.Members[2].Learner, o.Etcd.Members[2].RaftAppliedIndex = true, true, 14999
		Expect(peers.FindBlockedSnapshot(etcd, *o, now)).NotTo(BeNil())
	})
})

var _ = DescribeTable("PinnedTLS, when peer TLS is to be enabled,",
	func(change func(*etcdcluster.Observation), expected *bool) {
		etcd, o := enabling()
		for i := range o.Pods {
			o.Pods[i].PeerTLS, o.Pods[i].Ready, o.Pods[i].Containers[0].Ready = false, true, true
			o.Pods[i].ReadyChangedAt = now.Add(-time.Hour)
			o.MemberLeases = append(o.MemberLeases, etcdcluster.Lease{Name: "main-" + strconv.Itoa(i), TLSEnabled: new(false)})
		}
		change(o)
		Expect(peers.PinnedTLS(etcd, *o, now)).To(Equal(expected))
	},
	Entry("pins nothing while all members are healthy", func(*etcdcluster.Observation) {}, nil),
	Entry("keeps the members without TLS while a member is not healthy, since it may need a raft snapshot", func(o *etcdcluster.Observation) {
		o.Pods[2].Ready, o.Pods[2].Containers[0].Ready = false, false
	}, new(false)),
	Entry("keeps the members without TLS while a member has no pod", func(o *etcdcluster.Observation) { o.Pods = o.Pods[:2] }, new(false)),
	Entry("pins nothing if only the sidecar of a member is not ready", func(o *etcdcluster.Observation) { o.Pods[2].Ready = false }, nil),
	Entry("pins nothing if a member is registered with TLS", func(o *etcdcluster.Observation) {
		o.Pods[2].Ready, o.Pods[2].Containers[0].Ready, o.MemberLeases[2].TLSEnabled = false, false, new(true)
	}, nil),
	Entry("pins nothing after the change has begun", func(o *etcdcluster.Observation) {
		o.Pods[2].Ready, o.Pods[2].Containers[0].Ready, o.StatefulSet.TLS.PeerCA = false, false, "peer-ca"
	}, nil),
)
