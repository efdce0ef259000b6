// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Scale-in", func() {
	running := func(replicas int32, change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, change...)
		s.run()
		s.expectDone()
		s.resetTrace()

		return s
	}
	resize := func(s *scenario, what string, replicas int32) {
		s.inject(what, func() { s.Etcd.Spec.Replicas = replicas })
	}

	It("removes members from five to three and to one, and adds them again", func() {
		s := running(5, withStore)
		s.Leader = s.Member(4).ID
		s.Refresh()
		first := s.Objects.PodFor(0).UID
		resize(s, "spec.replicas becomes 3", 3)
		s.run()
		s.expectDone()
		Expect(s.Members).To(HaveLen(3))
		Expect(s.Objects.PodFor(0).UID).To(Equal(first))
		s.expectGolden("five-to-three")
		s.resetTrace()
		resize(s, "spec.replicas becomes 1", 1)
		s.run()
		s.expectDone()
		Expect(s.Members).To(HaveLen(1))
		Expect(s.Objects.PodFor(0).UID).To(Equal(first), "the first member is not restarted")
		s.expectGolden("three-to-one")
		s.resetTrace()
		resize(s, "spec.replicas becomes 3", 3)
		s.run()
		s.expectDone()
		Expect(s.Members).To(HaveLen(3))
		s.expectGolden("one-to-three-after-scale-in")
	})

	DescribeTable("begins although a member that leaves has no node any more", func(before, after int32, change ...func(*druidv1alpha1.Etcd)) {
		s := running(before, change...)
		last := int(before) - 1
		s.inject(fmt.Sprintf("the node of main-%d is gone, and no other node has room", last), func() {
			s.RemoveNode(s.Objects.PodFor(last).Node)
			s.Nodes = s.Nodes[:before]
		})
		s.runFor(30)
		resize(s, fmt.Sprintf("spec.replicas becomes %d", after), after)
		s.runUntil(func() bool { return s.steps["RemoveMember"] == 1 })
		if len(change) == 0 {
			Expect(s.result.Newest.Plan.Step).To(HaveField("Compare", HaveLen(last)), "all healthy members have the same data")
		}
		s.run()
		s.expectDone()
	},
		Entry("from three to one", int32(3), int32(1), withStore),
		Entry("from five to three", int32(5), int32(3), withStore),
		Entry("from five to one, without a store", int32(5), int32(1)),
	)

	It("does not delay the repair of a member that leaves while it waits for a snapshot", func() {
		s := running(3, withStore)
		s.inject("the image becomes v2, which is broken", func() { s.SetImageBroken("v2", true); s.image = "v2" })
		s.runFor(20)
		s.Store.Down = true
		s.inject("spec.replicas becomes 1, and the image becomes v3", func() { s.Etcd.Spec.Replicas, s.image = 1, "v3" })
		s.runFor(60)
		Expect(s.Objects.PodFor(1).Containers[0].Image).To(Equal("v3"))
		s.Store.Down = false
		s.idleTicks = 70 // longer than the pause between two attempts to take a snapshot
		s.run()
		s.expectDone()
	})

	It("to one leaves a member that restores corrupt data from the store", func() {
		s := running(3, withStore)
		resize(s, "spec.replicas becomes 1", 1)
		s.run()
		s.expectDone()
		Expect(s.Objects.State.PodSize).To(BeEquivalentTo(3))
		o := s.Observe()
		pod := &o.Pods[0]
		pod.Ready, pod.ContainersReady, pod.Containers[0].Ready, pod.ReadyChangedAt = false, false, false, s.Now().Add(-time.Hour)
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).PodSize).To(BeEquivalentTo(3), "etcd has not restarted")
		pod.Containers[0].Restarts, pod.Containers[0].StartedAt = 1, s.Now().Add(-2*time.Hour)
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).PodSize).To(BeEquivalentTo(3), "etcd has not restarted since the pod was ready")
		pod.Containers[0].StartedAt = s.Now()
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).PodSize).To(BeEquivalentTo(1), "the next template is that of a single member")
		o.State.PodSize, o.StatefulSet.UpdateRevision, o.StatefulSet.Template = 1, "next", "next"
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).Step).To(BeAssignableToTypeOf(plan.DeletePod{}))
	})

	DescribeTable("transfers the leadership before the snapshot if the leader leaves, and its sidecar does not start", func(image string, isRecorded bool) {
		s := running(3, withStore)
		s.inject("a scale-in to one begins, and the sidecar of main-2 does not start again", func() {
			s.Etcd.Spec.Replicas, s.image = 1, image
			if isRecorded {
				s.Objects.State.ScaleIn = &state.ScaleIn{To: 1, Since: s.Now()}
			}
			s.BreakSidecar(2)
			s.StopEtcd(2)
			s.Leader = s.Member(2).ID
		})
		s.run()
		s.expectDone()
	},
		Entry("before it is recorded", "v1", false),
		Entry("after it is recorded, and the image changes", "v2", true),
	)

	It("to one replaces the pod of a member that does not start again, although no operation is requested", func() {
		s := running(3, withStore)
		resize(s, "spec.replicas becomes 1", 1)
		s.run()
		s.expectDone()
		s.resetTrace()
		s.inject("the data of main-0 is corrupted, so that its etcd does not start again", func() {
			s.CorruptVolume(0)
			s.StopEtcd(0)
			s.Objects.PodFor(0).Containers[0].Restarts = 1
		})
		s.runFor(40)
		Expect(s.steps["DeletePod"]).To(Equal(1))
	})

	It("changes nothing if the size is increased again before the scale-in is recorded, although the store is down", func() {
		s := running(3, withStore)
		s.Store.Down = true
		resize(s, "spec.replicas becomes 1, and the store is down", 1)
		s.runFor(30)
		Expect(s.Objects.State.ScaleIn).To(BeNil())
		Expect(s.result.Newest.Plan.Stage).To(BeEquivalentTo("Snapshot"))
		resize(s, "spec.replicas becomes 3", 3)
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("RemoveMember"))
	})

	It("changes nothing if the size is increased again before the first removal", func() {
		s := running(3)
		resize(s, "spec.replicas becomes 1", 1)
		s.runUntil(func() bool { return s.Objects.State.ScaleIn != nil })
		resize(s, "spec.replicas becomes 3", 3)
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("RemoveMember"))
		Expect(s.Objects.State.ScaleIn).To(BeNil())
	})

	It("continues after the first removal, whatever the size becomes", func() {
		for _, size := range []int32{0, 3, 5} {
			s := running(3)
			resize(s, "spec.replicas becomes 1", 1)
			s.runUntil(func() bool { return len(s.Members) == 2 })
			resize(s, "spec.replicas changes", size)
			s.runUntil(func() bool { return len(s.Members) == 1 && s.Objects.State.ScaleIn == nil })
			s.run()
			if size > 0 {
				s.expectDone()
			}
			Expect(s.Objects.State.Size).To(Equal(max(size, 1)))
		}
	})

	It("removes a member that is lost before the others", func() {
		s := running(5)
		resize(s, "spec.replicas becomes 3", 3)
		s.runUntil(func() bool { return s.Objects.State.ScaleIn != nil })
		s.inject("the node of the member main-3 is cut off", func() { s.PartitionNode(s.Objects.PodFor(3).Node, true) })
		s.runUntil(func() bool { return len(s.Members) == 4 })
		Expect(s.Member(3)).To(BeNil())
		s.runUntil(func() bool { return len(s.Members) == 3 })
		s.inject("the node is reachable again", func() {
			for _, node := range s.Nodes {
				s.PartitionNode(node.Name, false)
			}
		})
		s.run()
		s.expectDone()
	})

	It("replaces the pod of the only member that stays if it cannot start", func() {
		s := running(3)
		resize(s, "spec.replicas becomes 1", 1)
		s.runUntil(func() bool { return s.Objects.State.ScaleIn != nil })
		s.SetImageBroken("broken", true)
		s.inject("the image becomes broken", func() { s.image = "broken" })
		s.runUntil(func() bool { return s.Applied().Image == "broken" })
		s.inject("pod main-0 is deleted", func() { s.DeletePod(0) })
		s.runFor(10)
		Expect(s.Members).To(HaveLen(3))
		s.inject("the image becomes v2", func() { s.image = "v2" })
		s.run()
		s.expectDone()
	})

	It("waits for a member that stays, with its volume lost after the first removal", func() {
		s := running(5, withStore)
		resize(s, "spec.replicas becomes 3", 3)
		s.runUntil(func() bool { return len(s.Members) == 4 })
		s.inject("the volume of main-1 is lost, and its pod is deleted", func() {
			s.LoseVolume(1)
			s.DeletePod(1)
		})
		s.run()
		s.expectDone()
		Expect(s.steps).To(HaveKeyWithValue("ReplaceClaim", 1))
	})

	It("removes the second of two voting members while the sidecar of the other does not start", func() {
		s := running(3, withStore)
		resize(s, "spec.replicas becomes 1", 1)
		s.runUntil(func() bool { return len(s.Members) == 2 })
		s.inject("the sidecar in pod main-0 does not start again", func() { s.BreakSidecar(0) })
		s.inject("the image becomes v2", func() { s.image = "v2" })
		s.run()
		s.expectDone()
		Expect(s.Members).To(HaveLen(1))
		Expect(s.violations()).To(BeEmpty())
	})

	It("removes the second of two voting members before the outdated pod of the first one is replaced", func() {
		s := running(1, withStore)
		resize(s, "spec.replicas becomes 3", 3)
		s.runUntil(func() bool { return len(s.Members) == 2 && !s.Members[1].Learner })
		s.inject("spec.replicas becomes 1, and the image becomes v2", func() { s.Etcd.Spec.Replicas, s.image = 1, "v2" })
		s.run()
		s.expectDone()
		Expect(s.Members).To(HaveLen(1))
		Expect(s.violations()).To(BeEmpty())
	})

	DescribeTable("replaces the outdated pod of the only member that stays, whose sidecar does not start", func(replicas int32, removals gomegatypes.GomegaMatcher) {
		s := running(3, withStore)
		resize(s, "spec.replicas becomes 1", 1)
		s.runUntil(func() bool { return s.Objects.State.ScaleIn != nil })
		s.inject("the sidecar in pod main-0 does not start again", func() { s.BreakSidecar(0) })
		s.runFor(10)
		s.inject("the image becomes v2, and spec.replicas may change", func() { s.Etcd.Spec.Replicas, s.image = replicas, "v2" })
		s.run()
		s.expectDone()
		Expect(s.steps["RemoveMember"]).To(removals)
		Expect(s.violations()).To(BeEmpty())
	},
		Entry("and continues", int32(1), Equal(2)),
		Entry("and ends, because the spec requests all members again", int32(3), BeZero()),
	)

	It("begins after the image of a member that leaves is corrected, while peer TLS is switched on", func() {
		s := running(3, withoutPeerTLS)
		s.SetImageBroken("broken", true)
		s.inject("spec.replicas becomes 5", func() { s.Etcd.Spec.Replicas = 5 })
		s.runUntil(func() bool { return len(s.Members) == 4 && s.Member(3) != nil && !s.Member(3).Learner })
		s.inject("the image becomes broken", func() { s.image = "broken" })
		s.inject("pod main-4 is deleted", func() { s.DeletePod(4) })
		s.runFor(20)
		s.inject("spec.replicas becomes 3, peer TLS is switched on, and the image becomes v2", func() {
			s.Etcd.Spec.Replicas, s.image = 3, "v2"
			withPeerTLS(s.Etcd)
		})
		s.run()
		s.expectDone()
		Expect(s.Members).To(HaveLen(3))
		Expect(s.violations()).To(BeEmpty())
	})

	DescribeTable("takes a scale-up back whose next member has no node",
		func(before, after, nodes, back int32, change ...func(*druidv1alpha1.Etcd)) {
			s := running(before, change...)
			for _, node := range s.Nodes[nodes:] {
				s.PartitionNode(node.Name, true)
			}
			resize(s, "spec.replicas increases", after)
			s.run()
			Expect(s.Members).To(HaveLen(int(nodes)))
			Expect(s.result.Description).To(HaveSuffix("set spec.replicas to %d to take the scale-up back)", back))
			resize(s, "spec.replicas decreases", back)
			s.run()
			s.expectDone()
			Expect(s.Members).To(HaveLen(int(back)))
			Expect(s.Objects.Pods).To(HaveLen(int(back)))
			Expect(s.Objects.State.Size).To(Equal(back))
			for _, claim := range s.Objects.Claims {
				Expect(claim.Exists).To(Equal(claim.Ordinal < int(back)), claim.Name)
			}
			Expect(s.violations()).To(BeEmpty())
		},
		Entry("after the restart of the first member", int32(1), int32(3), int32(1), int32(1), withStore),
		Entry("without a store", int32(1), int32(3), int32(1), int32(1)),
		Entry("of three members", int32(3), int32(5), int32(3), int32(3), withStore),
		Entry("of three members, one of which has been added", int32(3), int32(5), int32(4), int32(3), withStore),
	)

	DescribeTable("offers the members that are left if the quorum is lost forever, and counts no removed member",
		func(from, to int32, removed int, lost []int, left ...string) {
			s := running(from, withStore)
			Expect(s.Write(100)).To(BeTrue())
			resize(s, "spec.replicas decreases", to)
			s.runUntil(func() bool { return s.steps["RemoveMember"] == removed })
			s.inject("a user suspends the Etcd", func() { s.Etcd.Annotations = map[string]string{druidv1alpha1.SuspendEtcdSpecReconcileAnnotation: ""} })
			s.runFor(3)
			s.inject("the nodes of members that stay are gone", func() {
				for _, ordinal := range lost {
					s.RemoveNode(s.Objects.PodFor(ordinal).Node)
				}
				s.Refresh()
				s.Etcd.Annotations = nil
			})
			s.run()
			Expect(s.quorumLoss().Left).To(Equal(left))
			s.operator.OnObserve = func(o *etcdcluster.Observation) { // the newest log ends with the removals
				for _, job := range o.Inspections {
					if job.Result != nil {
						for _, lease := range o.MemberLeases[to:] {
							job.Result.Log.FormerVoters = append(job.Result.Log.FormerVoters, strings.Split(lease.Holder, ":")[0])
						}
					}
				}
			}
			s.choose(state.RecoverMembers)
			s.run()
			s.expectDone()
			Expect(s.Data.Revision).To(BeEquivalentTo(1_000_000_101))
		},
		Entry("after one of two removals", int32(3), int32(1), 1, []int{0}, "main-1"),
		Entry("after both removals", int32(5), int32(3), 2, []int{0, 1}, "main-2"),
	)

	DescribeTable("adds members again after a scale-in to one, which has not restarted the first member",
		func(change ...func(*druidv1alpha1.Etcd)) {
			s := running(3, change...)
			resize(s, "spec.replicas becomes 1", 1)
			s.run()
			s.expectDone()
			Expect(s.Objects.State.PodSize).To(BeEquivalentTo(3))
			s.inject("the etcd of main-0 is killed, and its database is older than the newest delta snapshot", func() { s.StopEtcdBehindStore(0) })
			resize(s, "spec.replicas becomes 3", 3)
			s.run()
			s.expectDone()
			Expect(s.Objects.State.PodSize).To(BeZero())
		},
		Entry("with a store", withStore),
		Entry("without a store"),
	)
})
