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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Snapshots are copied to another store", func() {
	It("after the final one, and three members are restored from the copy", SpecPriority(8), func(ctx SpecContext) {
		story := seed.Begin(ctx, "copy")
		objectStore := story.ObjectStore(ctx)
		source := druidv1alpha1.StoreSpec{
			Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("source"), Prefix: "demo/main",
			SecretRef: &corev1.SecretReference{Name: objectStore.SecretName},
		}
		target := druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: &story.Namespace, Prefix: "demo/main"}

		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(story), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store = &source })
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		ledger := story.Ledger(etcd)
		ledger.Write(ctx, 100)
		eventuallyStored(ctx, story, etcd, ledger.Revision)

		By("waiting for the final snapshot")
		task := &druidv1alpha1.EtcdCopyBackupsTask{
			ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: druidv1alpha1.EtcdCopyBackupsTaskSpec{
				SourceStore: source, TargetStore: target,
				WaitForFinalSnapshot: &druidv1alpha1.WaitForFinalSnapshotSpec{Enabled: true},
			},
		}
		story.Create(ctx, task)
		eventuallyCopy(ctx, story, task, func(g Gomega) {
			g.Expect(conditions.Find(task.Status.Conditions, "Progressing")).To(HaveValue(HaveField("Message", MatchRegexp("^Attempt 1 of 7 runs since .*; it copies when the newest full snapshot in the source is a final one$"))))
		})
		Expect(snapshots(story, "")).To(BeEmpty())
		ledger.Write(ctx, 100)
		takeFinalSnapshot(ctx, story, etcd)

		By("copying")
		eventuallyCopy(ctx, story, task, func(g Gomega) {
			g.Expect(conditions.Find(task.Status.Conditions, "Succeeded")).To(HaveValue(HaveField("Status", BeEquivalentTo("True"))))
		})
		Expect(snapshots(story, "Full-")).NotTo(BeEmpty())
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(operator.MissingForAlerts).WithContext(ctx).WithArguments("copies").WithTimeout(framework.Soon).WithPolling(framework.Pause).Should(BeEmpty())

		By("restoring three members from the copy")
		copied := fixture.Etcd(fixture.WithName("copied"), fixture.WithReplicas(3), withLocalStore(story), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store = &target })
		story.Create(ctx, copied)
		story.EventuallyReady(ctx, copied)
		Expect(story.Ledger(copied).Read(ctx)).To(Equal(ledger.Written()))

		By("deleting the task, and its pods with it")
		Expect(story.Client.Delete(ctx, task)).To(Succeed())
		Eventually(func() bool { return story.IsGone(ctx, task) }).WithContext(ctx).WithTimeout(framework.Soon).WithPolling(framework.Pause).Should(BeTrue())
	}, SpecTimeout(storyTimeout))
})

// eventuallyStored waits until the store holds everything up to the revision: the first full snapshot may have come after it.
func eventuallyStored(ctx context.Context, story *framework.Story, etcd *druidv1alpha1.Etcd, revision int64) {
	GinkgoHelper()
	story.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(max(lastRevision(ctx, story, "main-full-snap"), lastRevision(ctx, story, "main-delta-snap"))).To(BeNumerically(">=", revision))
	})
}

func eventuallyCopy(ctx context.Context, story *framework.Story, task *druidv1alpha1.EtcdCopyBackupsTask, look func(Gomega)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(story.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		look(g)
	}).WithContext(ctx).WithTimeout(framework.Patience).WithPolling(framework.Pause).Should(Succeed(), func() string {
		return story.State() + format.Object(task.Status, 1)
	})
}

// takeFinalSnapshot has the sidecar take the snapshot that gardenlet takes last before a control plane moves.
func takeFinalSnapshot(ctx context.Context, story *framework.Story, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()

	config, err := story.Connection(ctx, etcd)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (int, error) {
		status, err := askSidecar(ctx, story, etcd, config, "/snapshot/full?final=true")
		if err != nil {
			StopTrying("nobody knows whether it was taken").Wrap(err).Now()
		}

		return status, nil
	}).WithContext(ctx).WithTimeout(framework.Soon).WithPolling(framework.Pause).Should(Equal(http.StatusOK), story.State)
}
