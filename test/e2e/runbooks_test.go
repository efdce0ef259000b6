// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// restore_cluster_test.go follows the runbook for lost volumes. tasks_test.go follows the page about tasks.
var _ = Describe("The commands of the runbooks", func() {
	It("move a cluster and its snapshots to another store", framework.NeedsSeed("uses the object store of the seed"), framework.NeedsRestore("copies snapshots and restores them"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "moving")
		objectStore := ns.StartObjectStore(ctx)
		etcd := fixture.Etcd(fixture.WithName("main"), withObjectStore(objectStore, "S3", "demo/main"))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		eventuallyStored(ctx, ns, etcd, writeLog.Revision)

		placeholders := map[string]string{
			"NAMESPACE": ns.Name, "NAME": "main",
			"NEWSTORE": fmt.Sprintf(`{"provider": "Local", "container": %q, "prefix": "moved/main"}`, ns.Name),
		}
		const page = "operations/change-backup-store.md"
		ns.Follow(ctx, page, "Copy", placeholders)
		copied := snapshots(ns, "Full-")
		Expect(copied).NotTo(BeEmpty())

		writeLog.Write(ctx, 20)
		ns.Follow(ctx, page, "Switch", placeholders)
		ns.EventuallyReady(ctx, etcd)
		Expect(framework.Condition(etcd, "StoreResolved").Message).To(ContainSubstring(`Local container "` + ns.Name))
		writeLog.ExpectComplete(ctx)

		Expect(ns.Follow(ctx, page, "Check", placeholders)).To(MatchRegexp(`Snapshot (Full-\S+) holds everything up to revision \d+`))
		Expect(len(snapshots(ns, "Full-"))).To(BeNumerically(">", len(copied)))
		Expect(newestFull(ns)).To(BeNumerically(">=", writeLog.Revision), "the new store contains the writes after the copy")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(lastRevision(ctx, ns, "main-full-snap")).To(Equal(newestFull(ns)), "the Lease refers to the new store")
		})

		ns.Follow(ctx, page, "Clean up", placeholders)
		tasks := &druidv1alpha1.EtcdCopyBackupsTaskList{}
		Expect(ns.Client.List(ctx, tasks)).To(Succeed())
		Expect(tasks.Items).NotTo(ContainElement(HaveField("Namespace", ns.Name)))
	}, SpecTimeout(specTimeout))
})
