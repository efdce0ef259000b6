// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("A pod is lost", func() {
	It("costs no acknowledged key", func(ctx SpecContext) {
		story := seed.Begin(ctx, "lost-pod")
		etcd := fixture.Etcd(fixture.WithName("main"))
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)

		ledger := story.Ledger(etcd)
		ledger.Write(ctx, 100)

		pod := story.Pod(ctx, etcd)
		story.Kill(ctx, pod)
		story.EventuallyReplaced(ctx, etcd, pod)

		ledger.ExpectComplete(ctx)
		By("taking writes again")
		ledger.Write(ctx, 10)
		ledger.ExpectComplete(ctx)
	}, SpecTimeout(storyTimeout))
})
