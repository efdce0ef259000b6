// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("A restore", func() {
	It("is refused if the bucket was rolled back before it, until a user accepts the loss, and keeps the volume until a full snapshot", SpecPriority(8), framework.NeedsSeed("changes the directory of a volume"), framework.NeedsRestore("restores a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "rolledback")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withSmallJobs)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		placeholders := map[string]string{"NAMESPACE": ns.Name, "NAME": "main"}
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		eventuallyStored(ctx, ns, etcd, writeLog.Revision)
		earlier, stored := snapshots(ns, ""), writeLog.Written()
		writeLog.Write(ctx, 200)
		eventuallyStored(ctx, ns, etcd, writeLog.Revision)

		By("rolling the bucket back, and corrupting the volume")
		for _, path := range snapshots(ns, "") {
			if !slices.Contains(earlier, path) {
				Expect(os.Remove(path)).To(Succeed())
			}
		}
		stopMembers(ctx, ns, etcd)
		for _, path := range snapshots(ns, "") { // the final snapshot has everything
			if !slices.Contains(earlier, path) {
				Expect(os.Remove(path)).To(Succeed())
			}
		}
		claim := ns.Claim(ctx, etcd)

		By("requesting a restore, which the operator ignores")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			fixture.WithAnnotation("druid.gardener.cloud/restore", "from-store")(etcd)
			etcd.Spec.Replicas = 1
		})
		message := eventuallyIgnored(ctx, ns)
		Expect(message).To(MatchRegexp(`the store restores revision \d+ with \d+ keys, and the highest known revision is \d+`))
		Expect(ns.Claim(ctx, etcd).UID).To(Equal(claim.UID))
		accepted := regexp.MustCompile(`accept-revision=(\d+)`).FindStringSubmatch(message)
		Expect(accepted).To(HaveLen(2))
		ns.EventuallyReady(ctx, etcd) // on its volume, as the spec requests a member

		By("accepting the loss")
		stopMembers(ctx, ns, etcd)
		for _, path := range snapshots(ns, "") {
			if !slices.Contains(earlier, path) {
				Expect(os.Remove(path)).To(Succeed())
			}
		}
		placeholders["REVISION"] = accepted[1]
		ns.Follow(ctx, "operations/restore-from-backup.md", "Accept a loss", placeholders)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 })
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(ns.ClaimUIDs(ctx)).To(HaveKeyWithValue(claim.Name, Not(Equal(claim.UID))))
			g.Expect(etcd.Annotations).NotTo(Or(HaveKey("druid.gardener.cloud/restore"), HaveKey("druid.gardener.cloud/accept-revision")))
		})
		ns.EventuallyReady(ctx, etcd)
		writeLog.ExpectContained(ctx, stored)
		Expect(ns.Follow(ctx, "operations/restore-from-backup.md", "Volumes with the data before the restore", placeholders)).To(ContainSubstring(claim.Spec.VolumeName))
		Expect(ns.Follow(ctx, "operations/restore-from-backup.md", "All retained volumes", placeholders)).
			To(MatchRegexp(`(?m)^20\S+Z \S+ %s/main %s$`, ns.Name, claim.Spec.VolumeName))
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "RevisionConfirmed").Status).To(BeEquivalentTo("True"))
		})

		By("taking a full snapshot, after which the volume is deleted")
		ns.NewWriteLog(etcd).Write(ctx, 1)
		takeFullSnapshot(ctx, ns, etcd)
		volume := &corev1.PersistentVolume{}
		volume.Name = claim.Spec.VolumeName
		Eventually(ns.IsGone).WithContext(ctx).WithArguments(volume).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)

		By("restoring again, and deleting the Etcd before the volume is released")
		claim = ns.Claim(ctx, etcd)
		stopMembers(ctx, ns, etcd)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			fixture.WithAnnotation("druid.gardener.cloud/restore", "from-store")(etcd)
			etcd.Spec.Replicas = 1
		})
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(ns.ClaimUIDs(ctx)).To(HaveKeyWithValue(claim.Name, Not(Equal(claim.UID))))
		})
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Client.Delete(ctx, etcd)).To(Succeed())
		Eventually(ns.IsGone).WithContext(ctx).WithArguments(etcd).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
		Expect(eventsWithReason(ctx, ns, "VolumesRetained")).To(ContainElement(ContainSubstring(claim.Spec.VolumeName)))
		volume.Name = claim.Spec.VolumeName
		Expect(ns.IsGone(ctx, volume)).To(BeFalse())
		placeholders["ETCDUID"] = string(etcd.UID)
		Expect(ns.Follow(ctx, "operations/restore-from-backup.md", "Volumes of a deleted Etcd", placeholders)).To(And(ContainSubstring(claim.Spec.VolumeName), ContainSubstring(string(etcd.UID))))
		Eventually(ns.IsGone).WithContext(ctx).WithArguments(volume).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
	}, SpecTimeout(2*specTimeout))

	It("does not result in an empty cluster if the bucket is emptied and the volume is lost", Label("long"), framework.NeedsSeed("deletes volumes"), framework.NeedsRestore("restores a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "emptiedbucket")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withSmallJobs)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		eventuallyStored(ctx, ns, etcd, writeLog.Revision)
		claim := ns.Claim(ctx, etcd)
		destroyVolumes(ctx, ns, etcd)
		for _, path := range snapshots(ns, "") {
			Expect(os.Remove(path)).To(Succeed())
		}
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Ready").Status).NotTo(BeEquivalentTo("True"))
		})

		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			fixture.WithAnnotation("druid.gardener.cloud/restore", "from-store")(etcd)
		})
		Expect(eventuallyIgnored(ctx, ns)).To(ContainSubstring("could not restore from the store"))
		Expect(ns.Claim(ctx, etcd).UID).To(Equal(claim.UID))
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Ready").Status).NotTo(BeEquivalentTo("True"))
		})
	}, SpecTimeout(2*specTimeout))
})

// stopMembers stops the member, and waits until its pod is gone.
func stopMembers(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()

	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })
	Eventually(func(g Gomega) {
		pods := &corev1.PodList{}
		g.Expect(ns.Client.List(ctx, pods, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/component": "etcd-statefulset"})).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
}

// eventuallyIgnored returns the message of the newest event of a restore that was ignored. A Job may start only when the pods are old enough,
// and it may fail only after three pods with a back-off.
func eventuallyIgnored(ctx context.Context, ns *framework.TestNamespace) string {
	GinkgoHelper()

	Eventually(eventsWithReason).WithContext(ctx).WithArguments(ns, "RestoreIgnored").WithTimeout(7*time.Minute).WithPolling(framework.PollInterval).ShouldNot(BeEmpty(), ns.State)
	messages := eventsWithReason(ctx, ns, "RestoreIgnored")

	return messages[len(messages)-1]
}
