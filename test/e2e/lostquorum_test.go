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

var _ = Describe("Two of three members lose their volumes", func() {
	It("which is told with what is left, and nothing is attempted", SpecPriority(7), func(ctx SpecContext) {
		story := seed.Begin(ctx, "lost-quorum")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(story))
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		story.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "BackupReady").Status).To(BeEquivalentTo("True"))
		})

		pods, claims := podsByName(ctx, story), claimUIDs(ctx, story)
		losing := []string{"main-1", "main-2"}
		for _, pod := range losing {
			story.LoseVolume(ctx, "main-"+pod) // which nobody looks at while its pod serves
		}
		for _, pod := range losing {
			story.Kill(ctx, new(pods[pod]))
		}
		story.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Progressing").Message).To(And(
				ContainSubstring("the quorum of 2 is lost for good"), ContainSubstring("claim main-main-1 does not exist"), ContainSubstring("claim main-main-2 does not exist"),
				ContainSubstring("the data of main-0"), ContainSubstring("newest full snapshot: 2"), ContainSubstring("nothing is attempted")))
			g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("False"))
		})
		Eventually(events).WithContext(ctx).WithArguments(story, "QuorumLost").WithTimeout(framework.Soon).WithPolling(framework.Pause).ShouldNot(BeEmpty(), story.State)
		Consistently(func(g Gomega) {
			g.Expect(claimUIDs(ctx, story)).To(Equal(claims))
			g.Expect(podsByName(ctx, story)["main-0"].UID).To(Equal(pods["main-0"].UID))
			g.Expect(events(ctx, story, "ReplacingVolume")).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(15*time.Second).WithPolling(framework.Pause).Should(Succeed(), story.State)
	}, SpecTimeout(storyTimeout))
})
