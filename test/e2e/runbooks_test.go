// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// The runbook of lost volumes is followed in restore_test.go, that of tasks in tasks_test.go.
var _ = Describe("The runbooks", func() {
	It("move a cluster to another store, with the snapshots that there are", func(ctx SpecContext) {
		story := seed.Begin(ctx, "moving")
		objectStore := story.ObjectStore(ctx)
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(story), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
				Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("test"), Prefix: "demo/main",
				SecretRef: &corev1.SecretReference{Name: objectStore.SecretName},
			}
		})
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		ledger := story.Ledger(etcd)
		ledger.Write(ctx, 20)
		eventuallyStored(ctx, story, etcd, ledger.Revision)

		words := map[string]string{
			"NAMESPACE": story.Namespace, "NAME": "main",
			"NEWSTORE": fmt.Sprintf(`{"provider": "Local", "container": %q, "prefix": "moved/main"}`, story.Namespace),
		}
		const page = "operations/moving-stores.md"
		story.Follow(ctx, page, "Copy", words)
		copied := snapshots(story, "Full-")
		Expect(copied).NotTo(BeEmpty())

		ledger.Write(ctx, 20)
		story.Follow(ctx, page, "Switch", words)
		story.EventuallyReady(ctx, etcd)
		Expect(framework.Condition(etcd, "StoreResolved").Message).To(ContainSubstring(`Local container "` + story.Namespace))
		ledger.ExpectComplete(ctx)

		Expect(story.Follow(ctx, page, "Look", words)).To(MatchRegexp(`Snapshot (Full-\S+) holds everything up to revision \d+`))
		Expect(len(snapshots(story, "Full-"))).To(BeNumerically(">", len(copied)))
		Expect(newestFull(story)).To(BeNumerically(">=", ledger.Revision), "what was written after the copy is in the new store")
		Expect(lastRevision(ctx, story, "main-full-snap")).To(Equal(newestFull(story)), "the lease tells of the new store")

		story.Follow(ctx, page, "Clean up", words)
		tasks := &druidv1alpha1.EtcdCopyBackupsTaskList{}
		Expect(story.Client.List(ctx, tasks)).To(Succeed())
		Expect(tasks.Items).NotTo(ContainElement(HaveField("Namespace", story.Namespace)))
	}, SpecTimeout(storyTimeout))

	It("give a member whose data is broken a new volume", func(ctx SpecContext) {
		story := seed.Begin(ctx, "onemember")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3))
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		ledger := story.Ledger(etcd)
		ledger.Write(ctx, 20)

		words := map[string]string{"NAMESPACE": story.Namespace, "NAME": "main", "ORDINAL": "2"}
		const page = "operations/losing-a-member.md"
		Expect(story.Follow(ctx, page, "Losing one member", words)).To(ContainSubstring("main-2 Ready"))
		before, pod := story.VolumeDirs(ctx, etcd), memberPod(ctx, story, 2)
		story.Follow(ctx, page, "The node is well, and the data is not", words)
		story.EventuallyReplaced(ctx, etcd, pod)
		after := story.VolumeDirs(ctx, etcd)
		Expect(after).To(HaveLen(3))
		Expect(after).To(ContainElements(before[0], before[1]))
		Expect(after).NotTo(ContainElement(before[2]))
		ledger.ExpectComplete(ctx)
	}, SpecTimeout(storyTimeout))
})
