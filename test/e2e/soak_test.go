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

// soakRounds is the number of times that the test deletes the pod. The test takes about 15 minutes.
const soakRounds = 30

var _ = Describe("The repeated loss of a pod", Label("long"), func() {
	It("loses no acknowledged key", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "soak-lost-pod")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		for round := range soakRounds {
			By(fmt.Sprintf("deleting the pod, round %d", round+1))
			writeLog.Write(ctx, 20)

			pod := ns.Pod(ctx, etcd)
			ns.Kill(ctx, pod)
			ns.EventuallyReplaced(ctx, etcd, pod)
			writeLog.ExpectComplete(ctx)
		}
	}, SpecTimeout(2*time.Hour))
})
