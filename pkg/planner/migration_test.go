// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Volume migration", func() {
	running := func(replicas int32, change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, append(change, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("slow") })...)
		s.run()
		s.expectDone()
		s.resetTrace()

		return s
	}
	requestFast := func(s *scenario) {
		s.inject("spec.storageClass changes", func() { s.Etcd.Spec.StorageClass = new("fast") })
	}
	expectClass := func(s *scenario, class string, members int) {
		GinkgoHelper()
		s.expectDone()
		Expect(s.Objects.State.Migration).To(BeNil())
		Expect(s.Members).To(HaveLen(members))
		for ordinal := range members {
			Expect(s.Objects.ClaimFor(ordinal).StorageClass).To(Equal(class))
		}
		Expect(s.Objects.ClaimFor(members)).To(Or(BeNil(), HaveField("Exists", false)), "the claim of the extra member")
	}

	It("replaces the volumes of three members by those of another StorageClass, with an extra member", func() {
		s := running(3, withStore)
		requestFast(s)
		s.run()
		expectClass(s, "fast", 3)
		s.expectGolden("migration-storage-class")
	})

	It("replaces the volumes of five members without a store by smaller ones", func() {
		s := running(5)
		s.inject("spec.storageCapacity decreases", func() { s.Etcd.Spec.StorageCapacity = new(resource.MustParse("10Gi")) })
		s.run()
		expectClass(s, "slow", 5)
		Expect(s.Objects.ClaimFor(4).Requested).To(BeEquivalentTo(10 << 30))
		s.expectGolden("migration-smaller")
	})

	It("replaces no further volume if the change is taken back, and replaces the new ones", func() {
		s := running(3, withStore)
		requestFast(s)
		s.runUntil(func() bool { return s.steps["DeleteClaim"] == 1 })
		s.inject("spec.storageClass changes back", func() { s.Etcd.Spec.StorageClass = new("slow") })
		s.run()
		expectClass(s, "slow", 3)
		s.expectGolden("migration-taken-back")
	})

	It("waits with the extra member if its volume cannot be provisioned, and removes it if the change is taken back", func() {
		s := running(3, withStore)
		before := s.Objects.Pods[0].UID
		s.inject("spec.storageClass changes, and no node has a volume of that class", func() {
			s.Etcd.Spec.StorageClass = new("missing")
			for _, node := range s.Nodes[3:] {
				node.Partitioned = true
			}
		})
		s.runFor(60)
		Expect(s.Objects.State.Migration).To(HaveField("Phase", state.MigrationReplace))
		Expect(s.result.Description).To(HaveSuffix("; change spec.storageClass and spec.storageCapacity back to take the volume migration back)"))
		s.inject("spec.storageClass changes back", func() { s.Etcd.Spec.StorageClass = new("slow") })
		s.run()
		expectClass(s, "slow", 3)
		Expect(s.Objects.Pods[0].UID).To(Equal(before))
		Expect(s.steps["RemoveMember"]).To(BeZero())
	})

	It("continues after a recovery was withdrawn", func() {
		s := running(3, withStore, withPolicy(druidv1alpha1.RecoveryPolicyAsk))
		s.operator.Config.RecoveryDwellTime, s.operator.Config.RecoveryMaxClusters = dwellTime, 3
		requestFast(s)
		s.runUntil(func() bool { return s.steps["DeleteClaim"] == 1 && s.steps["PromoteMember"] == 2 })
		s.inject("the volumes of main-0 and main-2 are lost", func() {
			for _, ordinal := range []int{0, 2} {
				s.LoseVolume(ordinal)
				s.DeletePod(ordinal)
			}
		})
		s.run()
		s.choose(state.RecoverMembers)
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		s.inject("the volumes exist again, and the policy becomes Never", func() {
			withPolicy(druidv1alpha1.RecoveryPolicyNever)(s.Etcd)
			s.Volumes["main-main-0"].Lost, s.Volumes["main-main-2"].Lost = false, false
			s.Refresh()
		})
		s.run()
		expectClass(s, "fast", 3)
		Expect(s.steps).NotTo(HaveKey("RecoverData"))
	})

	// excluding returns a migration that has excluded the pod of the first member that it replaces.
	excluding := func(change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := running(3, change...)
		requestFast(s)
		s.runUntil(func() bool { return s.Objects.PodFor(1).Excluded })

		return s
	}

	DescribeTable("lets clients use an excluded member again while another member", func(fails, recovers func(*scenario)) {
		s := excluding(withStore)
		s.inject("main-2 fails", func() { fails(s) })
		s.runUntil(func() bool { return !s.Objects.PodFor(1).Excluded })
		Expect(s.Member(1)).NotTo(BeNil())
		recovers(s)
		s.run()
		expectClass(s, "fast", 3)
	},
		Entry("is unreachable", func(s *scenario) { s.PartitionNode(s.Objects.PodFor(2).Node, true) }, func(s *scenario) { s.PartitionNode(s.Objects.PodFor(2).Node, false) }),
		Entry("has lost its volume", func(s *scenario) { s.RemoveNode(s.Objects.PodFor(2).Node) }, func(*scenario) {}),
	)

	DescribeTable("does not remove an excluded member", func(change func(*scenario), removals int) {
		s := excluding(withStore)
		before := s.Objects.ClaimFor(1).UID
		change(s)
		s.runUntil(func() bool { pod := s.Objects.PodFor(1); return pod != nil && !pod.Excluded })
		Expect(s.steps["RemoveMember"]).To(BeZero())
		Expect(s.Objects.ClaimFor(1).UID).To(Equal(before))
		s.run()
		expectClass(s, *s.Etcd.Spec.StorageClass, 3)
		Expect(s.steps["RemoveMember"]).To(Equal(removals))
	},
		Entry("that has become the leader, before the leadership moves", func(s *scenario) { s.Leader = s.Member(1).ID }, 4),
		Entry("if the change is taken back", func(s *scenario) {
			s.inject("spec.storageClass changes back", func() { s.Etcd.Spec.StorageClass = new("slow") })
		}, 1),
		Entry("while members have different data", func(s *scenario) {
			s.inject("the data of main-2 changes", func() { s.Corrupt(2, 1) })
		}, 3),
		Entry("whose pod was deleted, before its next pod is excluded", func(s *scenario) {
			s.inject("pod main-1 is deleted by a user", func() { s.DeletePod(1) })
		}, 4),
	)

	It("removes a member again if its sidecar has promoted it while its claim is being deleted", func() {
		s := running(3, withStore)
		requestFast(s)
		s.runUntil(func() bool { return s.steps["DeleteClaim"] == 1 })
		for range 30 { // the operator does not run
			s.tick()
		}
		Expect(s.Member(1).Learner).To(BeFalse())
		s.run()
		expectClass(s, "fast", 3)
	})

	It("replaces a lost volume while the node of a removed member is unreachable", func() {
		s := running(3, withStore)
		requestFast(s)
		s.runUntil(func() bool { return s.steps["DeleteClaim"] == 1 })
		s.inject("the node of main-1 is unreachable", func() { s.PartitionNode(s.Objects.PodFor(1).Node, true) })
		s.runFor(3)
		s.inject("the node of main-2 is gone", func() { s.RemoveNode(s.Objects.PodFor(2).Node) })
		s.run()
		Expect(s.violations()).To(BeEmpty())
		healthy, all := s.Voters()
		Expect([]int{healthy, all}).To(HaveEach(3))
		s.inject("the node of main-1 is reachable", func() { s.PartitionNode(s.Objects.PodFor(1).Node, false) })
		s.run()
		expectClass(s, "fast", 3)
	})

	It("replaces the claim of the extra member if its StorageClass has no volumes, and another class is requested", func() {
		s := running(3, withStore)
		s.SetClassBroken("missing", true)
		s.inject("spec.storageClass changes, and no volume of that class is provisioned", func() { s.Etcd.Spec.StorageClass = new("missing") })
		s.runFor(60)
		Expect(s.steps["RemoveMember"]).To(BeZero())
		requestFast(s)
		s.run()
		expectClass(s, "fast", 3)
	})

	It("replaces the claim of a removed member if its StorageClass has no more volumes, and the change is taken back", func() {
		s := running(3, withStore)
		requestFast(s)
		s.runUntil(func() bool { return s.steps["DeleteClaim"] == 1 })
		s.SetClassBroken("fast", true)
		s.runFor(60)
		s.inject("spec.storageClass changes back", func() { s.Etcd.Spec.StorageClass = new("slow") })
		s.run()
		expectClass(s, "slow", 3)
	})

	It("removes an extra member without a volume before it replaces outdated pods, and always selects a pod for clients", func() {
		s := running(3, withStore)
		s.SetClassBroken("missing", true)
		s.inject("spec.storageClass changes, and no volume of that class is provisioned", func() { s.Etcd.Spec.StorageClass = new("missing") })
		s.runFor(60)
		s.inject("spec.storageClass changes back, and the image v2", func() { s.Etcd.Spec.StorageClass, s.image = new("slow"), "v2" })
		for range 100 {
			s.runFor(1)
			remaining := strconv.Itoa(int(s.Applied().Remaining))
			Expect(remaining == "0" || slices.ContainsFunc(s.Objects.Pods, func(pod etcdcluster.Pod) bool { return pod.SelectedFor == remaining })).To(BeTrue())
		}
		s.run()
		expectClass(s, "slow", 3)
	})

	DescribeTable("ends with a restore from the store", func(steps int) {
		s := running(3, withStore)
		requestFast(s)
		s.runUntil(func() bool { return s.steps["DeleteClaim"] == steps && s.Objects.State.Migration.IsActive() })
		s.inject("all volumes are lost", func() {
			for ordinal := range 4 {
				s.LoseVolume(ordinal)
			}
			s.RestartPods()
			s.Refresh()
		})
		s.runFor(100)
		s.inject("a restore is requested", func() {
			s.Etcd.Annotations = map[string]string{druidv1alpha1.RestoreAnnotation: druidv1alpha1.RestoreFromStoreUnverified}
		})
		s.run()
		expectClass(s, "fast", 3)
	},
		Entry("while the extra member joins", 0),
		Entry("while the first member is replaced", 1),
		Entry("while the last member is replaced", 3),
		Entry("while the extra member is removed", 4),
	)

	It("records the migration with which a hibernated cluster starts", func() {
		s := running(3, withStore)
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("spec.replicas becomes 3, and spec.storageClass changes", func() { s.Etcd.Spec.Replicas, s.Etcd.Spec.StorageClass = 3, new("fast") })
		s.run()
		expectClass(s, "fast", 3)
	})

	DescribeTable("continues after a hibernation, and ends with another size", func(steps int, size int32) {
		s := running(3, withStore)
		requestFast(s)
		s.runUntil(func() bool { return s.steps["DeleteClaim"] == steps && s.Objects.State.Migration.IsActive() })
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		Expect(s.violations()).To(BeEmpty())
		Expect(s.Objects.Pods).To(BeEmpty())
		s.inject("spec.replicas changes", func() { s.Etcd.Spec.Replicas = size })
		s.run()
		expectClass(s, "fast", int(size))
	},
		Entry("while the extra member joins", 0, int32(3)),
		Entry("while the first member is replaced", 1, int32(3)),
		Entry("while the last member is replaced", 3, int32(3)),
		Entry("while the extra member is removed", 4, int32(3)),
		Entry("with more members", 2, int32(5)),
	)

	DescribeTable("ends with another size", func(steps int, size int32) {
		s := running(3, withStore, withSurge)
		requestFast(s)
		s.runUntil(func() bool { return s.steps["DeleteClaim"] == steps && s.Objects.State.Migration.IsActive() })
		s.inject("spec.replicas changes", func() { s.Etcd.Spec.Replicas = size })
		s.run()
		expectClass(s, "fast", int(size))
	},
		Entry("scaled out in the beginning", 0, int32(5)),
		Entry("scaled out in the middle", 2, int32(5)),
		Entry("scaled out in the end", 4, int32(5)),
		Entry("scaled in in the beginning", 0, int32(1)),
		Entry("scaled in in the middle", 1, int32(1)),
		Entry("scaled in in the end", 4, int32(1)),
	)

	It("does not use the claim that an earlier member has left", func() {
		s := running(5, withStore)
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		left := s.Objects.ClaimFor(3)
		left.Exists, left.UID, left.StorageClass = true, "left", "slow"
		requestFast(s)
		s.run()
		Expect(s.result.Description).To(ContainSubstring("claim main-main-3 of an earlier member to be deleted"))
		Expect(s.Objects.ClaimFor(3).UID).To(BeEquivalentTo("left"))
		s.inject("the claim is deleted", func() { s.DeleteClaim(3) })
		s.run()
		expectClass(s, "fast", 3)
	})

	It("adds no member if the change is taken back before", func() {
		s := running(3, withStore)
		s.Store.Down = true
		requestFast(s)
		s.runFor(30)
		Expect(s.Objects.State.Migration).To(HaveField("Phase", state.MigrationRequested))
		s.inject("spec.storageClass changes back", func() { s.Etcd.Spec.StorageClass = new("slow") })
		s.run()
		expectClass(s, "slow", 3)
		Expect(s.steps).NotTo(Or(HaveKey("PromoteMember"), HaveKey("RemoveMember")))
	})
})
