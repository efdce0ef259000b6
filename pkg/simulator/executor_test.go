// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
)

var _ = Describe("Execute", func() {
	var c *simulator.Cluster

	BeforeEach(func() {
		c = simulator.New(newEtcd(3), now)
		simulate(c, "v1")
	})
	pod := func(ordinal int) plan.Meta {
		return plan.Meta{Object: c.Objects.PodFor(ordinal).Name, UID: c.Objects.PodFor(ordinal).UID}
	}
	claim := func(ordinal int) plan.Meta {
		return plan.Meta{Object: c.Objects.ClaimFor(ordinal).Name, UID: c.Objects.ClaimFor(ordinal).UID}
	}

	DescribeTable("refuses a step whose object has another UID", func(step plan.Step) {
		before := c.Observe()
		Expect(c.Execute(step)).To(MatchError(simulator.ErrConflict))
		Expect(c.Observe()).To(Equal(before))
	},
		Entry("of a pod", plan.DeletePod{Meta: plan.Meta{Object: "main-0", UID: "other"}}),
		Entry("of an evicted pod", plan.EvictPod{Meta: plan.Meta{Object: "main-0", UID: "other"}}),
		Entry("of a claim", plan.ReplaceClaim{Meta: plan.Meta{Object: "main-main-0", UID: "other"}}),
		Entry("of a claim that is deleted for a restore", plan.DeleteClaim{Meta: plan.Meta{Object: "main-main-0", UID: "other"}}),
		Entry("of a claim that is resized", plan.ResizeClaim{Meta: plan.Meta{Object: "main-main-0", UID: "other"}, Size: 1}),
		Entry("of the StatefulSet", plan.RecreateStatefulSet{Meta: plan.Meta{Object: "main", UID: "other"}}),
	)

	It("refuses what the PodDisruptionBudget protects, and what a drain needs first", func() {
		c.DeletePod(1)
		Expect(c.Execute(plan.EvictPod{Meta: pod(0)})).To(MatchError(simulator.ErrEvictionRefused))
		for range 10 {
			c.Tick()
		}
		c.RefuseEvictions(1)
		Expect(c.Execute(plan.EvictPod{Meta: pod(0)})).To(MatchError(simulator.ErrEvictionRefused))
		Expect(c.Execute(plan.EvictPod{Meta: pod(0)})).To(Succeed())
		Expect(c.Observe().Pods[0].Deleting).To(BeTrue())
	})

	It("refuses to resize a claim while the quota has no room, and records that for a minute", func() {
		resize := plan.ResizeClaim{Meta: claim(0), Size: 20 << 30}
		c.SetQuotaExhausted(true)
		Expect(c.Execute(resize)).To(MatchError(simulator.ErrQuotaExceeded))
		Expect(c.Observe().Claims[0]).To(And(HaveField("RefusedSize", resize.Size), HaveField("RefusedWhy", "exceeded quota")))
		for range 12 {
			c.Tick()
		}
		Expect(c.Observe().Claims[0].RefusedSize).To(BeZero())
		c.SetQuotaExhausted(false)
		Expect(c.Execute(resize)).To(Succeed())
		Expect(c.Observe().Claims[0].Requested).To(Equal(resize.Size))
	})

	DescribeTable("refuses what etcd refuses", func(step plan.Step) {
		Expect(c.Execute(step)).To(HaveOccurred())
	},
		Entry("to make an unknown member the leader", plan.MoveLeader{To: 1}),
		Entry("to promote a voting member", plan.PromoteMember{Member: 0xa1}),
		Entry("to register peer URLs of an unknown member", plan.UpdatePeerURLs{Member: 1, URLs: []string{"http://main-0:2380"}}),
	)
})
