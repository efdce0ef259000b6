// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// largeDatabase is the size of the database with which a surge is measured in bytes: half of the quota that etcd recommends at most.
const largeDatabase = 4 << 30

// largeBound is the bound of a wait with such a database.
const largeBound = 3 * time.Minute

var _ = Describe("A surge of a single member with a large database", func() {
	It("costs less time without a write than a restart", Label("long"), Serial, framework.NeedsSeed("needs 12 GiB of memory"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "surge-size")
		etcd := fixture.Etcd(fixture.WithName("main"), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.StorageCapacity, etcd.Spec.Etcd.Quota = new(resource.MustParse("16Gi")), new(resource.MustParse("8Gi"))
			etcd.Spec.Etcd.SnapshotCount = new(int64(1000)) // the log of raft is in memory too
		})
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Grow(ctx, largeDatabase)
		patch := func(mutate func(*druidv1alpha1.Etcd)) func() { return func() { ns.Patch(ctx, etcd, mutate) } }

		By("hashing the keys while clients write")
		workload := ns.StartWorkload(ctx, etcd, "hash")
		duration := writeLog.TimeHash(ctx)
		GinkgoWriter.Printf("the hash of the keys took %s: %v\n", duration.Round(10*time.Millisecond), workload.Stop(ctx))

		restart := surge(ctx, ns, etcd, "restart", largeBound, patch(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["tier"] = "one" }))
		Expect(surge(ctx, ns, etcd, "surge", largeBound, patch(func(etcd *druidv1alpha1.Etcd) {
			withSurge(etcd)
			etcd.Spec.Labels["tier"] = "two"
		}))).To(BeNumerically("<", restart))
	}, SpecTimeout(3*specTimeout))
})
