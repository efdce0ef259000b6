// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The loss of a pod", func() {
	It("loses no acknowledged key", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "lost-pod")
		etcd := fixture.Etcd(fixture.WithName("main"))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 100)

		pod := ns.Pod(ctx, etcd)
		ns.Kill(ctx, pod)
		ns.EventuallyReplaced(ctx, etcd, pod)

		writeLog.ExpectComplete(ctx)
		By("writing again")
		writeLog.Write(ctx, 10)
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})
