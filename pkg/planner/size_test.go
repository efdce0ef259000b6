// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("The size that is rendered for the first member", func() {
	scaledUp := func(change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(1, append(change, withStore)...)
		s.run()
		s.expectDone()
		s.resetTrace()
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })

		return s
	}
	wasReplaced := func(s *scenario) func() bool {
		return func() bool { return s.steps["DeletePod"] > 0 }
	}

	It("is 1 again where its data is lost while it restarts, so that its sidecar restores", func() {
		s := scaledUp()
		s.idleTicks = 100
		s.Write(100)
		s.runUntil(wasReplaced(s))
		s.inject("the data of main-0 is lost", func() { s.CorruptVolume(0) })
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(101))
		s.expectGolden("one-to-three-data-lost")
	})

	It("stays 1 where the spec is set back to 1 before a learner was added, by way of hibernation", func() {
		s := scaledUp()
		s.runUntil(wasReplaced(s))
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("spec.replicas becomes 1", func() { s.Etcd.Spec.Replicas = 1 })
		s.run()
		s.expectDone()
		Expect(s.Written().ClusterSize).To(BeEquivalentTo(1))
	})

	It("becomes 1 again once a learner was added", func() {
		s := scaledUp()
		s.runUntil(func() bool { return len(s.Members) > 1 })
		s.inject("spec.replicas becomes 1", func() { s.Etcd.Spec.Replicas = 1 })
		s.run()
		s.expectDone()
		Expect(s.Written()).To(And(HaveField("ClusterSize", BeEquivalentTo(1)), HaveField("Replicas", BeEquivalentTo(1))))
	})

	DescribeTable("survives that the cluster hibernates while it is scaled up",
		func(until func(*scenario) bool) {
			s := scaledUp()
			s.runUntil(func() bool { return until(s) })
			s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
			s.run()
			Expect(s.Objects.Pods).To(BeEmpty())
			s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
			s.run()
			s.expectDone()
		},
		Entry("before the first member has its size", func(s *scenario) bool { return s.Written().ClusterSize == 3 }),
		Entry("while the first member restarts", func(s *scenario) bool { return s.steps["DeletePod"] > 0 }),
		Entry("when the second member is a learner", func(s *scenario) bool { return len(s.Members) == 2 }),
		Entry("when the second member votes", func(s *scenario) bool { return s.steps["PromoteMember"] == 1 }),
		Entry("when the third member is a learner", func(s *scenario) bool { return len(s.Members) == 3 }),
	)

	It("stays 1 without a store until the last member has joined, since nothing can be restored", func() {
		s := newScenario(1)
		s.run()
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.runUntil(func() bool { return len(s.Members) == 3 })
		Expect(s.steps).NotTo(HaveKey("DeletePod"))
		s.run()
		s.expectDone()
	})

	DescribeTable("is that of the spec before the second member starts, where the sidecar of the first may restore a store",
		func(change func(*druidv1alpha1.Etcd, *etcdcluster.Observation), size int) {
			s := newScenario(1)
			s.run()
			s.Etcd.Spec.Replicas = 3
			s.Refresh()
			change(s.Etcd, &s.Objects)
			Expect(planner.For(s.Etcd, s.Objects, s.Now()).ClusterSize).To(BeEquivalentTo(size))
		},
		Entry("no store", func(_ *druidv1alpha1.Etcd, o *etcdcluster.Observation) {
			o.Pods[0].Store = etcdcluster.StoreFingerprint(corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd"}, {Name: "backup-restore"}}})
		}, 1),
		Entry("a store", func(etcd *druidv1alpha1.Etcd, _ *etcdcluster.Observation) { withStore(etcd) }, 3),
		Entry("a store that the spec does not state any more, and that the pod still uses", func(_ *druidv1alpha1.Etcd, o *etcdcluster.Observation) {
			o.Pods[0].Store = "of another store"
		}, 3),
		Entry("no store any more, after the size was rendered", func(_ *druidv1alpha1.Etcd, o *etcdcluster.Observation) {
			o.StatefulSet.HasPreStopHook = true
		}, 3),
	)

	It("waits for the store, without which the first member would not start if its size were 1", func() {
		s := scaledUp()
		s.Store.Down = true
		s.Objects.FullSnapshotLease.RenewTime, s.Objects.DeltaSnapshotLease.RenewTime = s.Now().Add(-time.Hour), s.Now().Add(-time.Hour)
		s.runFor(30)
		Expect(s.steps).NotTo(HaveKey("DeletePod"))
		Expect(s.Members).To(HaveLen(1))
		s.inject("the store recovers", func() { s.Store.Down = false })
		s.run()
		s.expectDone()
	})
})

var _ = Describe("An adopted cluster that etcd-druid left with its first member at size 1", func() {
	var (
		now  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	// started adds a pod, and what its member answers. The role is voter, learner, ended for a learner that does not run or, for a pod that
	// is not scheduled, pending.
	started := func(role string) {
		ordinal := len(o.Pods)
		name, id := fmt.Sprintf("main-%d", ordinal), uint64(0xa1+ordinal) // #nosec G115 -- 0 to 2
		isReady := role == "voter"
		o.Pods = append(o.Pods, etcdcluster.Pod{
			Name: name, Ordinal: ordinal, UID: types.UID("uid-of-" + name), ResourceVersion: "7", RevisionHash: "old", Ready: isReady, ContainersReady: isReady,
			ConfigChecksum: "of-3", Store: "the store", CreationTime: now.Add(-time.Hour + time.Duration(ordinal)*time.Minute),
		})
		if ordinal == 2 { // the operator has started the third one
			o.Pods[2].RevisionHash, o.Pods[2].HasPreStopHook = "new", true
		}
		o.Claims = append(o.Claims, etcdcluster.Claim{Name: "main-" + name, Ordinal: ordinal, Exists: true, CreationTime: now.Add(-time.Hour)})
		o.State.Replicas, o.StatefulSet.SpecReplicas = new(int32(ordinal+1)), int32(ordinal+1) // #nosec G115 -- 0 to 2
		if role == "pending" {
			return
		}
		if role != "ended" {
			o.Pods[ordinal].Containers = []etcdcluster.Container{{Name: "etcd", State: etcdcluster.ContainerRunning}}
		}
		endpoint := etcdcluster.EndpointStatus{
			Ordinal: ordinal, Reachable: true, Healthy: isReady, Learner: !isReady, MemberID: id, ClusterID: 1, LeaderID: 0xa1, RaftIndex: 100, RaftAppliedIndex: 100,
		}
		if role == "ended" {
			endpoint = etcdcluster.EndpointStatus{Ordinal: ordinal, Error: "connection refused"}
		}
		o.Etcd.Members = append(o.Etcd.Members, endpoint)
		o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{
			ID: id, Name: name, Learner: !isReady, PeerURLs: []string{"http://" + name + ".main-peer.demo.svc:2380"},
		})
	}

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
		etcd.Spec.Replicas = 3
		withStore(etcd)
		o = etcdcluster.Observation{
			ManagedResource:   etcdcluster.ManagedResource{Exists: true, Name: "druid-main"},
			State:             state.State{Size: 3, InitialClusterToken: "etcd-cluster"},
			FullSnapshotLease: etcdcluster.Lease{RenewTime: now.Add(-time.Second)},
			StatefulSet:       etcdcluster.StatefulSet{Exists: true, Name: "main", UpdateRevision: "new", Store: "the store"},
			Etcd:              etcdcluster.EtcdResponses{Queried: true},
		}
		started("voter")
		o.Pods[0].ConfigChecksum = "of-1"
	})

	DescribeTable("restarts it next, as soon as that is safe",
		func(roles []string, kind string, reason string) {
			for _, role := range roles {
				started(role)
			}
			p := planner.For(etcd, o, now)
			Expect(p.Step).To(And(WithTransform(kindOf, Equal(kind)), HaveField("Object", "main-0"), HaveField("UID", BeEquivalentTo("uid-of-main-0"))), p.Reason)
			Expect(p.Reason).To(Equal(reason + "; its sidecar was rendered with size 1 and would restore a second cluster from the store"))
		},
		Entry("before a learner is promoted", []string{"learner"}, "DeletePod",
			"1 of 1 healthy; replacing main-0 leaves 0 of 1, which a single member cannot avoid"),
		Entry("when three members vote, after another one leads", []string{"voter", "voter"}, "MoveLeader",
			"3 of 3 healthy; replacing main-0 leaves 2 of 3: allowed, after leadership is transferred to main-2"),
		Entry("at the cost of the quorum, where the third does not start", []string{"voter", "pending"}, "DeletePod",
			"2 of 2 healthy; replacing main-0 leaves 1 of 2, fewer than the quorum of 2, until it has recovered: allowed, because main-2 does not start"),
		Entry("at the cost of the quorum, where the third is a learner that does not run", []string{"voter", "ended"}, "DeletePod",
			"2 of 2 healthy; replacing main-0 leaves 1 of 2, fewer than the quorum of 2, until it has recovered: allowed, because main-2 does not start"),
	)

	DescribeTable("keeps two voters",
		func(change func()) {
			started("voter")
			started("learner")
			o.Etcd.Members[2] = etcdcluster.EndpointStatus{Ordinal: 2, Error: "timeout"}
			change()
			Expect(planner.For(etcd, o, now).Step).To(BeNil())
		},
		Entry("where the third runs and does not answer one request, since it may be catching up", func() {}),
		Entry("where the third does not start, and the node of the first is unreachable", func() {
			o.Pods[2].Containers[0].State = etcdcluster.ContainerWaiting
			o.Pods[0].Ready = false
		}),
		Entry("where the third does not start, and the store is unreachable", func() {
			o.Pods[2].Containers[0].State = etcdcluster.ContainerWaiting
			o.FullSnapshotLease.RenewTime = time.Time{}
		}),
		Entry("where the third does not start, and the first was rendered without the store that the spec states now", func() {
			o.Pods[2].Containers[0].State = etcdcluster.ContainerWaiting
			o.Pods[0].Store = ""
		}),
	)

	It("restarts it at the cost of the quorum although the pod of the third was recreated just now", func() {
		started("voter")
		started("pending")
		o.Pods[2].CreationTime = now.Add(-time.Second)
		Expect(planner.For(etcd, o, now).Step).To(WithTransform(kindOf, Equal("DeletePod")))
	})

	It("waits for the store before it restarts the only voting member, and promotes no second one meanwhile", func() {
		started("learner")
		o.FullSnapshotLease.RenewTime = time.Time{}
		p := planner.For(etcd, o, now)
		Expect(p.Step).To(BeNil())
		Expect(p.WaitsFor).To(HavePrefix("a new snapshot in the store: the sidecar has not recorded any yet. Pod main-0 cannot start again without the store"))
	})

	It("starts the third member first, which saves the quorum", func() {
		started("voter")
		Expect(planner.For(etcd, o, now).ScaleUp).To(Equal(&plan.Size{Replicas: 3, ClusterSize: 3}))
		started("pending")
		o.Claims[2].CreationTime = now.Add(-time.Minute)
		Expect(planner.For(etcd, o, now)).To(And(HaveField("Step", BeNil()), HaveField("WaitsFor", Not(BeEmpty()))))
	})

	It("promotes a third member that has caught up before, which saves the quorum", func() {
		started("voter")
		started("learner")
		Expect(planner.For(etcd, o, now).Step).To(WithTransform(kindOf, Equal("PromoteMember")))
	})

	It("keeps two voting members if one is not healthy", func() {
		started("voter")
		started("pending")
		o.Pods[1].Ready, o.Pods[1].ContainersReady = false, false
		o.Etcd.Members[1].Healthy = false
		Expect(planner.For(etcd, o, now).Step).To(BeNil())
	})

	It("is known from its configuration", func() {
		started("voter")
		started("voter")
		Expect(planner.For(etcd, o, now).Step).To(And(WithTransform(kindOf, Equal("MoveLeader")), HaveField("Object", "main-0")))
		o.Pods[0].ConfigChecksum = "of-3"
		Expect(planner.For(etcd, o, now).Step).To(And(WithTransform(kindOf, Equal("EvictPod")), HaveField("Object", "main-1")), "a follower goes first")
	})

	It("is no reason to restart a first member that has the size, and another template", func() {
		started("voter")
		o.Pods[0].HasPreStopHook = true
		Expect(planner.For(etcd, o, now).ScaleUp).NotTo(BeNil(), "all are replaced when the third has joined")
	})
})
