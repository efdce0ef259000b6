// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

var _ = Describe("Different data", func() {
	running := func(replicas int32, change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, change...)
		s.run()
		s.expectDone()
		s.resetTrace()

		return s
	}
	corrupt := func(s *scenario, corruption uint32, ordinals ...int) {
		s.inject("data changes", func() {
			for _, ordinal := range ordinals {
				s.Corrupt(ordinal, corruption)
			}
		})
	}
	isConfirmed := func(s *scenario) func() bool {
		return func() bool { return consistency.IsConfirmed(s.Objects.State.Inconsistency) }
	}
	expectCorrect := func(s *scenario) {
		GinkgoHelper()
		s.expectDone()
		Expect(s.Objects.State.Inconsistency).To(BeNil())
		Expect(s.Written().ExcludesPods).To(BeFalse())
		for ordinal := range int(s.Etcd.Spec.Replicas) {
			Expect(s.Volumes[s.Objects.ClaimFor(ordinal).Name].Corruption).To(BeZero())
		}
	}

	It("of a follower is replaced, and its volume is kept", func() {
		s := running(3, withStore)
		before := s.Volumes["main-main-2"]
		corrupt(s, 1, 2)
		s.run()
		expectCorrect(s)
		Expect(before.Policy).To(Equal(corev1.PersistentVolumeReclaimRetain))
		Expect(before.RetainedFor).To(Equal(s.Etcd.UID))
		Expect(s.Objects.State.Retained).To(BeEmpty(), "the volume stays until a user deletes it")
		Expect(s.steps).To(And(HaveKey("ReplaceClaim"), HaveKey("EvictPod"), Not(HaveKey("DeletePod"))), "an eviction considers the PodDisruptionBudget")
		s.expectGolden("inconsistent-follower")
	})

	It("of the leader is replaced after the leadership has moved", func() {
		s := running(3, withStore)
		corrupt(s, 1, 0)
		Expect(s.Leader).To(Equal(s.Member(0).ID))
		s.run()
		expectCorrect(s)
		s.expectGolden("inconsistent-leader")
	})

	isExcluded := func(s *scenario, ordinal int) bool { return s.Objects.PodFor(ordinal).Excluded }
	isClaimDeleted := func(s *scenario, ordinal int) bool {
		claim := s.Objects.ClaimFor(ordinal)

		return claim != nil && claim.Deleting
	}
	breakSidecar := func(ordinal int) func(*scenario) {
		return func(s *scenario) {
			s.BreakSidecar(ordinal)
			s.image = "v2"
		}
	}
	DescribeTable("is replaced if, after its exclusion,", func(replicas int32, ordinal int, holds func(*scenario, int) bool, fault func(*scenario)) {
		s := running(replicas, withStore)
		corrupt(s, 1, ordinal)
		s.runUntil(func() bool { return holds(s, ordinal) })
		s.inject(CurrentSpecReport().LeafNodeText, func() { fault(s) })
		s.run()
		expectCorrect(s)
		Expect(s.violations()).To(BeEmpty())
	},
		Entry("the sidecar of another one does not start again, and the image becomes v2", int32(3), 2, isExcluded, breakSidecar(0)),
		Entry("the same happens after the claim was deleted", int32(5), 1, isClaimDeleted, breakSidecar(3)),
		Entry("the pod of another one is deleted after the claim was", int32(5), 4, isClaimDeleted, func(s *scenario) { s.DeletePod(0) }),
		Entry("two sidecars do not start again, and peer TLS is enabled with the image v2", int32(3), 2, isExcluded, func(s *scenario) {
			breakSidecar(2)(s)
			breakSidecar(0)(s)
			s.runFor(1)
			withPeerTLS(s.Etcd)
			s.Etcd.Generation++
		}),
		Entry("it becomes the leader", int32(3), 2, isExcluded, func(s *scenario) { s.Leader = s.Member(2).ID }),
	)

	It("of two of five members is replaced, one after the other, and clients reach none of the two before", func() {
		s := running(5)
		corrupt(s, 1, 1)
		corrupt(s, 2, 3)
		s.runUntil(func() bool { return s.steps["ReplaceClaim"] == 1 })
		Expect(s.Objects.PodFor(1).Excluded && s.Objects.PodFor(3).Excluded).To(BeTrue())
		s.runUntil(func() bool { return s.Objects.State.Inconsistency != nil && !isConfirmed(s)() })
		Expect(s.Objects.PodFor(3).Excluded && s.Written().ExcludesPods).To(BeTrue(), "the difference of the other one is found again")
		s.run()
		expectCorrect(s)
		Expect(s.steps["ReplaceClaim"]).To(Equal(2))
	})

	DescribeTable("is reported and not touched if no quorum has the same data", func(replicas int32, corruptions ...uint32) {
		s := running(replicas)
		s.inject("data changes", func() {
			for ordinal, corruption := range corruptions {
				s.Corrupt(ordinal, corruption)
			}
		})
		s.run()
		Expect(s.violations()).To(BeEmpty())
		Expect(s.steps).To(BeEmpty())
		p := s.result.Newest.Plan
		Expect([]any{p.Stage, p.Render}).To(Equal([]any{plan.StageHalted, false}))
		Expect(p.WaitsFor).To(HavePrefix("a user to decide which data is correct: at revision "))
	},
		Entry("of three different ones", int32(3), uint32(1), uint32(2)),
		Entry("of two and two and one", int32(5), uint32(1), uint32(1), uint32(2), uint32(2)),
	)

	It("is replaced after a user has given a member the data of another one, so that a quorum has the same", func() {
		s := running(3)
		corrupt(s, 1, 0)
		corrupt(s, 2, 2)
		s.run()
		Expect(s.result.Newest.Plan.Stage).To(Equal(plan.StageHalted))
		Expect(s.Leader).To(Equal(s.Member(1).ID))
		s.inject("a user gives main-2 a new volume", func() {
			s.CorruptVolume(2)
			s.DeletePod(2)
		})
		s.run()
		expectCorrect(s)
		Expect(s.steps["ReplaceClaim"]).To(Equal(1))
	})

	It("that is found less than three times in a row changes nothing", func() {
		s := running(3)
		corrupt(s, 1, 2)
		s.runUntil(func() bool {
			return s.Objects.State.Inconsistency != nil && s.Objects.State.Inconsistency.Comparisons == 2
		})
		corrupt(s, 0, 2)
		s.run()
		expectCorrect(s)
		Expect(s.steps).To(BeEmpty())
	})

	DescribeTable("is not replaced while another member", func(fails, recovers func(s *scenario), steps ...string) {
		s := running(3)
		corrupt(s, 1, 2)
		s.runUntil(func() bool {
			return s.Objects.State.Inconsistency != nil && s.Objects.State.Inconsistency.Comparisons == 2
		})
		s.inject("main-1 fails", func() { fails(s) })
		s.runFor(20)
		Expect(s.violations()).To(BeEmpty())
		Expect(s.steps).NotTo(HaveKey("ReplaceClaim"))
		for _, step := range steps {
			Expect(s.steps).To(HaveKey(step), "clients do not reach the member with other data")
		}
		s.inject("main-1 recovers", func() { recovers(s) })
		s.run()
		expectCorrect(s)
		Expect(s.steps["ReplaceClaim"]).To(Equal(1))
	},
		Entry("is on an unreachable node",
			func(s *scenario) { s.Node(s.Objects.PodFor(1).Node).Partitioned = true }, func(s *scenario) { s.Node(s.Objects.PodFor(1).Node).Partitioned = false }),
		Entry("catches up as a learner",
			func(s *scenario) { s.CatchUpTicks = 40; s.CorruptVolume(1); s.DeletePod(1) }, func(s *scenario) { s.CatchUpTicks = 1 }),
		Entry("has failed after the difference was confirmed",
			func(s *scenario) {
				s.runUntil(isConfirmed(s))
				s.Node(s.Objects.PodFor(1).Node).Partitioned = true
			}, func(s *scenario) { s.Node(s.Objects.PodFor(1).Node).Partitioned = false }, "ExcludePod"),
	)

	It("that was compared long ago is compared again before anything changes", func() {
		s := running(3)
		corrupt(s, 1, 2)
		s.runUntil(isConfirmed(s))
		s.inject("the care controller stops, and a user repairs the data six minutes later", func() { s.operator.WithoutCare = true })
		at := s.Objects.State.Inconsistency.At
		for s.Now().Before(at.Add(6 * time.Minute)) {
			s.tick()
		}
		s.Corrupt(2, 0)
		s.resetTrace()
		s.runFor(20)
		Expect(s.steps).To(BeEmpty())
		s.inject("the care controller runs", func() { s.operator.WithoutCare = false })
		s.run()
		expectCorrect(s)
		Expect(s.steps).To(BeEmpty())
	})

	It("is not that of a member that a user has replaced since the last comparison", func() {
		s := running(3)
		corrupt(s, 1, 2)
		s.runUntil(func() bool {
			return s.Objects.State.Inconsistency != nil && s.Objects.State.Inconsistency.Comparisons == 2
		})
		s.inject("the care controller stops after the next comparison, and a user gives main-2 a new volume", func() {
			s.Objects.State.Inconsistency.Comparisons, s.operator.WithoutCare = 3, true
			s.CorruptVolume(2)
			s.DeletePod(2)
		})
		s.runFor(20)
		Expect(s.steps).NotTo(Or(HaveKey("ExcludePod"), HaveKey("ReplaceClaim")))
		s.inject("the care controller runs", func() { s.operator.WithoutCare = false })
		s.run()
		expectCorrect(s)
		Expect(s.steps).NotTo(HaveKey("ReplaceClaim"))
	})

	It("that ends before the volume is replaced changes nothing in the end", func() {
		s := running(3, withStore)
		corrupt(s, 1, 2)
		volume := s.Volumes["main-main-2"]
		s.runUntil(func() bool { return volume.Policy == corev1.PersistentVolumeReclaimRetain })
		s.inject("the data is the same again", func() { s.Corrupt(2, 0) })
		s.run()
		expectCorrect(s)
		Expect(s.steps).NotTo(HaveKey("ReplaceClaim"))
		Expect(volume.Policy).To(Equal(corev1.PersistentVolumeReclaimDelete))
		Expect(s.Objects.State.Retained).To(BeEmpty())
		s.expectGolden("inconsistent-ended")
	})

	It("is replaced although the store fails, after a long attempt to take a snapshot", func() {
		s := running(3, withStore)
		s.inject("the store fails", func() { s.Store.Down = true })
		corrupt(s, 1, 2)
		s.runUntil(func() bool { return s.steps["ReplaceClaim"] == 1 })
		Expect(s.steps["TakeSnapshot"]).To(BeNumerically(">", 0))
		s.inject("the store recovers", func() { s.Store.Down = false })
		s.run()
		expectCorrect(s)
	})

	It("is replaced before a scale-in begins", func() {
		s := running(3, withStore)
		corrupt(s, 1, 0)
		s.runUntil(isConfirmed(s))
		s.inject("spec.replicas becomes 1", func() { s.Etcd.Spec.Replicas = 1 })
		s.run()
		Expect(s.violations()).To(BeEmpty())
		Expect(s.steps["ReplaceClaim"]).To(Equal(1))
		Expect(s.Members).To(HaveLen(1))
		Expect(s.Volumes["main-main-0"].Corruption).To(BeZero())
	})

	It("that is not confirmed yet holds a scale-in", func() {
		s := running(3)
		corrupt(s, 1, 0)
		s.runUntil(func() bool { return s.Objects.State.Inconsistency != nil })
		s.inject("spec.replicas becomes 1", func() { s.Etcd.Spec.Replicas = 1 })
		s.runFor(1)
		Expect(isConfirmed(s)()).To(BeFalse())
		Expect(s.Objects.State.ScaleIn).To(BeNil())
		Expect(s.result.Newest.Plan.WaitsFor).To(HavePrefix("all members to have the same data: at revision "))
	})

	It("that is not confirmed yet holds a scale-up", func() {
		s := running(3)
		corrupt(s, 1, 0)
		s.runUntil(func() bool { return s.Objects.State.Inconsistency != nil })
		s.inject("spec.replicas becomes 5", func() { s.Etcd.Spec.Replicas = 5 })
		s.runUntil(func() bool { return s.result.Newest.Plan.Stage == plan.StageScaleUp || len(s.Members) > 3 })
		Expect(isConfirmed(s)()).To(BeFalse())
		Expect(s.result.Newest.Plan.WaitsFor).To(HavePrefix("all members to have the same data: at revision "))
		s.run()
		s.expectDone()
		Expect(s.steps["ReplaceClaim"]).To(Equal(1))
		Expect(s.Members).To(HaveLen(5))
		Expect(s.correctData()).To(BeZero())
	})

	It("pauses a scale-in that has begun, and is replaced before a member is removed", func() {
		s := running(3)
		s.inject("spec.replicas becomes 1", func() { s.Etcd.Spec.Replicas = 1 })
		s.runUntil(func() bool { return s.Objects.State.ScaleIn != nil })
		corrupt(s, 1, 0)
		s.run()
		Expect(s.violations()).To(BeEmpty())
		Expect(s.steps["ReplaceClaim"]).To(Equal(1))
		Expect(s.Members).To(HaveLen(1))
		Expect(s.Volumes["main-main-0"].Corruption).To(BeZero())
		s.expectGolden("inconsistent-scalein")
	})

	It("is replaced while the pod of the member cannot be evicted", func() {
		s := running(3)
		corrupt(s, 1, 2)
		s.inject("evictions are refused", func() { s.RefuseEvictions(5) })
		s.run()
		expectCorrect(s)
	})

	It("is replaced after an operator that stops between the deletion of the claim and that of the pod", func() {
		s := running(3)
		corrupt(s, 1, 2)
		s.inject("evictions are refused", func() { s.RefuseEvictions(1) })
		s.runUntil(func() bool { return s.Objects.ClaimFor(2).Deleting })
		s.operator = s.newOperator()
		s.run()
		expectCorrect(s)
	})
})
