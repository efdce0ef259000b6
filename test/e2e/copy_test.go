// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("An EtcdCopyBackupsTask", func() {
	It("copies the snapshots from OCS to S3 after the final snapshot, and three members are restored from the copy", gate, SpecPriority(8), framework.NeedsSeed("uses the object store of the seed"), framework.NeedsRestore("restores the copy of a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "copy")
		objectStore := ns.StartObjectStore(ctx)
		source, target := objectStore.Spec("OCS", "source", "demo/main"), objectStore.Spec("S3", "target", "demo/main")
		copies := func() []string { return snapshotsIn(objectStore.Dir(ctx, "target"), "") }

		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store = source })
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 100)
		eventuallyStored(ctx, ns, etcd, writeLog.Revision)

		By("waiting for the final snapshot")
		task := &druidv1alpha1.EtcdCopyBackupsTask{
			ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: druidv1alpha1.EtcdCopyBackupsTaskSpec{
				SourceStore: *source, TargetStore: *target,
				WaitForFinalSnapshot: &druidv1alpha1.WaitForFinalSnapshotSpec{Enabled: true},
			},
		}
		ns.Create(ctx, task)
		eventuallyCopy(ctx, ns, task, func(g Gomega) {
			g.Expect(conditions.Find(task.Status.Conditions, "Progressing")).To(HaveValue(HaveField("Message", MatchRegexp("^Attempt 1 of 7 runs since .*; it copies when the newest full snapshot in the source is a final one$"))))
		})
		Expect(copies()).To(BeEmpty())
		writeLog.Write(ctx, 100)
		takeFinalSnapshot(ctx, ns, etcd)

		By("copying the snapshots")
		eventuallyCopy(ctx, ns, task, func(g Gomega) {
			g.Expect(conditions.Find(task.Status.Conditions, "Succeeded")).To(HaveValue(HaveField("Status", BeEquivalentTo("True"))))
		})
		Expect(copies()).To(ContainElement(ContainSubstring("/Full-")))
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(operator.MissingMetrics).WithContext(ctx).WithArguments("copies").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(BeEmpty())

		By("restoring three members from the copy")
		copied := fixture.Etcd(fixture.WithName("copied"), fixture.WithReplicas(3), withLocalStore(ns), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store = target })
		ns.Create(ctx, copied)
		ns.EventuallyReady(ctx, copied)
		Expect(ns.NewWriteLog(copied).Read(ctx)).To(Equal(writeLog.Written()))

		By("deleting the task")
		Expect(ns.Client.Delete(ctx, task)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, task) }).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(BeTrue())
	}, SpecTimeout(specTimeout))
})

// eventuallyStored waits until a full or delta snapshot in the store contains the revision.
func eventuallyStored(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, revision int64) {
	GinkgoHelper()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(max(lastRevision(ctx, ns, "main-full-snap"), lastRevision(ctx, ns, "main-delta-snap"))).To(BeNumerically(">=", revision))
	})
}

func eventuallyCopy(ctx context.Context, ns *framework.TestNamespace, task *druidv1alpha1.EtcdCopyBackupsTask, check func(Gomega)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		check(g)
	}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), func() string {
		return ns.State() + format.Object(task.Status, 1)
	})
}

// takeFinalSnapshot requests the final snapshot from the sidecar, like gardenlet before a control plane migration.
func takeFinalSnapshot(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()

	config, err := ns.Connection(ctx, etcd)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (int, error) {
		status, err := requestSidecar(ctx, ns, etcd, config, "/snapshot/full?final=true")
		if err != nil {
			StopTrying("the sidecar may have taken the snapshot").Wrap(err).Now()
		}

		return status, nil
	}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Equal(http.StatusOK), ns.State)
}
