// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// soakRounds is how often the pod is lost: about a quarter of an hour's worth.
const soakRounds = 30

var _ = Describe("A pod is lost again and again", Label("soak"), func() {
	It("never costs an acknowledged key", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "soak-lost-pod")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		for round := range soakRounds {
			By(fmt.Sprintf("losing it for the %d. time", round+1))
			writeLog.Write(ctx, 20)

			pod := ns.Pod(ctx, etcd)
			ns.Kill(ctx, pod)
			ns.EventuallyReplaced(ctx, etcd, pod)
			writeLog.ExpectComplete(ctx)
		}
	}, SpecTimeout(2*time.Hour))
})
