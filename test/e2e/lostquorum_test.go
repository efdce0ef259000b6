// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The loss of two of three volumes", func() {
	It("is reported with the remaining data, and the operator does not attempt a repair", SpecPriority(7), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "lost-quorum")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "BackupReady").Status).To(BeEquivalentTo("True"))
		})

		pods, claims := podsByName(ctx, ns), claimUIDs(ctx, ns)
		lostMembers := []string{"main-1", "main-2"}
		for _, pod := range lostMembers {
			ns.DeleteVolume(ctx, "main-"+pod) // the operator does not check the volume while the member is healthy
		}
		for _, pod := range lostMembers {
			ns.Kill(ctx, new(pods[pod]))
		}
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Progressing").Message).To(And(
				ContainSubstring("the quorum of 2 cannot recover"), ContainSubstring("claim main-main-1 does not exist"), ContainSubstring("claim main-main-2 does not exist"),
				ContainSubstring("data of main-0"), ContainSubstring("newest full snapshot: 2"), ContainSubstring("the operator changes nothing")))
			g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("False"))
		})
		Eventually(eventsWithReason).WithContext(ctx).WithArguments(ns, "QuorumLost").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).ShouldNot(BeEmpty(), ns.State)
		Consistently(func(g Gomega) {
			g.Expect(claimUIDs(ctx, ns)).To(Equal(claims))
			g.Expect(podsByName(ctx, ns)["main-0"].UID).To(Equal(pods["main-0"].UID))
			g.Expect(eventsWithReason(ctx, ns, "ReplacingVolume")).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(15*time.Second).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
	}, SpecTimeout(specTimeout))
})
