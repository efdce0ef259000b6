// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("PlanFor members that join an existing cluster", func() {
	var (
		now  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
		etcd.Spec.Replicas = 3
		etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
			Members:         []druidv1alpha1.BootstrapExistingMember{{Name: "old-0", PeerURLs: []string{"http://old-0:2380"}}},
			ClientEndpoints: []string{"http://old:2379"},
		}
		o = etcdcluster.Observation{Etcd: etcdcluster.EtcdResponses{Queried: true}}
	})

	p := func() plan.Plan { return planner.For(etcd, o, now) }
	old := etcdcluster.EndpointStatus{Endpoint: "old:2379", Reachable: true, Healthy: true, MemberID: 0x01, ClusterID: 1, LeaderID: 0x01}
	// joined lets the first members of the Etcd run, next to the one of the existing cluster.
	joined := func(count int) {
		o.ManagedResource = etcdcluster.ManagedResource{Exists: true, Name: "druid-main"}
		o.State = state.State{Size: int32(count), Replicas: new(int32(count))}                                                 // #nosec G115 -- a handful
		o.StatefulSet = etcdcluster.StatefulSet{Exists: true, Name: "main", SpecReplicas: int32(count), UpdateRevision: "new"} // #nosec G115 -- a handful
		o.Etcd.MemberList = []etcdcluster.ListedMember{{ID: 0x01, Name: "old-0"}}
		for ordinal := range count {
			name := fmt.Sprintf("main-%d", ordinal)
			o.Pods = append(o.Pods, etcdcluster.Pod{
				Name: name, Ordinal: ordinal, UID: types.UID("uid-of-" + name), RevisionHash: "new", Ready: true, ContainersReady: true,
				Containers: []etcdcluster.Container{{Name: "etcd", State: "Running"}}, CreationTime: now.Add(-time.Hour),
			})
			id := uint64(0xa1 + ordinal) // #nosec G115 -- a handful
			o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: ordinal, Reachable: true, Healthy: true, MemberID: id, ClusterID: 1, LeaderID: 0x01})
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: id, Name: name, PeerURLs: []string{"http://" + name + ".main-peer.demo.svc:2380"}})
		}
	}

	DescribeTable("waits for the cluster, since the first member would form one of its own",
		func(replicas int32, endpoints []etcdcluster.EndpointStatus, why string) {
			etcd.Spec.Replicas = replicas
			o.Etcd.Existing = endpoints
			Expect(p().Stage).To(BeEquivalentTo("WaitForExisting"))
			Expect(p().Render).To(BeFalse())
			Expect(p().WaitsFor).To(Equal("the existing cluster to be healthy at http://old:2379 (" + why + ")"))
		},
		Entry("of multiple members", int32(3), []etcdcluster.EndpointStatus{{Endpoint: "old:2379", Error: "timeout"}}, "old:2379: timeout"),
		Entry("that is the only one", int32(1), []etcdcluster.EndpointStatus{{Endpoint: "old:2379", Error: "timeout"}}, "old:2379: timeout"),
		Entry("before any endpoint was queried", int32(3), nil, "no endpoint was queried"),
	)

	It("waits no more once it has begun", func() {
		joined(1)
		Expect(p().Stage).NotTo(BeEquivalentTo("WaitForExisting"))
	})

	It("lets the first member join alone", func() {
		o.Etcd.Existing = []etcdcluster.EndpointStatus{old}
		Expect(p().Stage).To(BeEquivalentTo("Create"))
		Expect(p().Replicas).To(BeEquivalentTo(1))
		Expect(p().Reason).To(ContainSubstring("the first joins the existing cluster alone"))
	})

	It("counts the members of the existing cluster among the voters", func() {
		o.Etcd.Existing = []etcdcluster.EndpointStatus{old}
		joined(1)
		Expect(p().ScaleUp).To(Equal(&plan.Size{Replicas: 2, ClusterSize: 3}))
		Expect(p().Reason).To(HavePrefix("2 of 2 healthy; main-1 joins"))
	})

	It("continues if not all of it can be queried, since one member of the Etcd is healthy", func() {
		joined(1)
		Expect(p().ScaleUp).NotTo(BeNil())
		Expect(p().Reason).To(HavePrefix("1 of 2 healthy; main-1 joins"))
	})

	It("replaces no pod on the account of members that cannot be asked", func() {
		joined(3)
		o.Pods[2].RevisionHash = "old"
		Expect(p().Step).To(BeNil())
		Expect(p().Reason).To(Equal("3 of 4 healthy; replacing main-2 leaves 2 of 4, fewer than the quorum of 3: not allowed"))
		o.Etcd.Existing = []etcdcluster.EndpointStatus{old}
		Expect(p().Step).To(HaveField("Object", "main-2"))
		Expect(p().Reason).To(HavePrefix("4 of 4 healthy; replacing main-2 leaves 3 of 4"))
	})

	It("counts them as well where the spec names them no more", func() {
		o.Etcd.Existing = []etcdcluster.EndpointStatus{old}
		joined(3)
		etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
		etcd.Status.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingClusterStatus{
			JoinedAt: metav1.NewTime(now), Members: []druidv1alpha1.BootstrapJoinedMember{{Name: "old-0"}},
		}
		Expect(p().Existing).To(HaveField("Voters", 4), p().WaitsFor)
		Expect(p().Reason).To(HavePrefix("4 of 4 healthy"))
	})

	It("does not take strangers for them", func() {
		joined(1)
		o.Etcd.MemberList[0].Name = "stranger"
		Expect(p().ScaleUp).To(BeNil())
	})
})

var _ = DescribeTable("For a cluster that wakes up starts all members that may be voting members",
	func(started int32, isLost bool, expected int32) {
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name, etcd.UID, etcd.Spec.Replicas = "main", "etcd-uid", 3
		o := etcdcluster.Observation{
			State:        state.State{Size: 3, Started: started, Replicas: new(int32(0))},
			StatefulSet:  etcdcluster.StatefulSet{Exists: true},
			Claims:       []etcdcluster.Claim{{Name: "main-main-0", Exists: true}, {Name: "main-main-1", Ordinal: 1, Exists: true, Lost: isLost}},
			MemberLeases: []etcdcluster.Lease{{Exists: true, Name: "main-0", Holder: "a1:1:Leader"}, {Exists: true, Name: "main-1"}},
		}
		p := planner.For(etcd, o, time.Now())
		Expect(p.Stage).To(BeEquivalentTo("WakeUp"))
		Expect(p.Replicas).To(Equal(expected))
	},
	Entry("one that was promoted before its sidecar wrote its Lease", int32(2), false, int32(2)),
	Entry("but none whose volume is deleted and that no Lease records", int32(2), true, int32(1)),
	Entry("but none that has not started since the cluster has its last size", int32(1), false, int32(1)),
)

var _ = It("states what names with a prefix need if a pod is not ready", func() {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Name, etcd.Spec.Replicas, etcd.Spec.MemberNamePrefix = "main", 1, new("seed")
	o := etcdcluster.Observation{
		StatefulSet: etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1},
		Pods:        []etcdcluster.Pod{{Name: "main-0", Containers: []etcdcluster.Container{{Name: "etcd"}, {Name: "backup-restore", Image: "etcdbrctl:v0.33.0"}}}},
	}
	hint := "(spec.memberNamePrefix needs etcd-backup-restore v0.43.0 or newer; the pod runs etcdbrctl:v0.33.0)"
	Expect(planner.For(etcd, o, time.Now()).WaitsFor).To(Equal("pod main-0 to be ready " + hint))
	o.Pods[0].Ready = true
	Expect(planner.For(etcd, o, time.Now()).WaitsFor).To(BeEmpty())
})
