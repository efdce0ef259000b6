// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// withRareSnapshots leaves full snapshots to who asks for them: whatever a full snapshot holds was saved on purpose.
func withRareSnapshots(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: time.Hour}
	etcd.Spec.Backup.FullSnapshotSchedule = new("0 0 1 1 *")
}

func withDeleteAll(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicy("DeleteAll"))
}

var _ = Describe("The final snapshot", func() {
	DescribeTable("holds the last acknowledged write when a cluster hibernates",
		func(ctx SpecContext, replicas int32) {
			ns := seed.NewNamespace(ctx, "hibernation-saved")
			etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(replicas), withLocalStore(ns), withRareSnapshots)
			ns.Create(ctx, etcd)
			ns.EventuallyReady(ctx, etcd)
			eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0) // the one that the sidecar begins with

			writeLog := ns.NewWriteLog(etcd)
			writeLog.Write(ctx, 50)
			Expect(newestFull(ns)).To(BeNumerically("<", writeLog.Revision))
			began := time.Now()
			hibernate(ctx, ns, etcd)
			AddReportEntry("hibernated", time.Since(began).Round(time.Second).String(), ReportEntryVisibilityAlways)

			Expect(newestFull(ns)).To(BeNumerically(">=", writeLog.Revision))
			Expect(framework.Condition(etcd, "FinalSnapshotTaken")).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "SnapshotVerified")))
			Expect(snapshots(ns, "Full-")).NotTo(ContainElement(HaveSuffix(".final")))
		},
		Entry("of one member", int32(1), SpecTimeout(specTimeout)),
		Entry("of three members", int32(3), SpecTimeout(specTimeout)),
	)

	It("holds the last acknowledged write before volumes are deleted, and nothing goes before it is stored", SpecPriority(5), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "deletion-saved")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withRareSnapshots, withDeleteAll)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 50)
		pod, claim := ns.Pod(ctx, etcd), ns.Claim(ctx, etcd)

		By("deleting it while the store takes nothing")
		Expect(os.Chmod(ns.StoreDir(), 0)).To(Succeed())
		DeferCleanup(os.Chmod, ns.StoreDir(), os.FileMode(0o755))
		Expect(ns.Client.Delete(ctx, etcd)).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "FinalSnapshotTaken")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "SnapshotFailed")))
		})
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
		Expect(framework.IsPodReady(ns.Pod(ctx, etcd))).To(BeTrue())
		Expect(ns.Claim(ctx, etcd).DeletionTimestamp).To(BeNil())
		writeLog.ExpectComplete(ctx)

		By("letting the store take snapshots again")
		Expect(os.Chmod(ns.StoreDir(), 0o755)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, etcd) && ns.IsGone(ctx, claim) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
		Expect(newestFull(ns)).To(BeNumerically(">=", writeLog.Revision))

		By("making it anew from the store")
		etcd = fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withRareSnapshots, withDeleteAll)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Claim(ctx, etcd).UID).NotTo(Equal(claim.UID))
		ns.NewWriteLog(etcd).ExpectContained(ctx, writeLog.Written())

		By("letting it go without a snapshot")
		Expect(os.Chmod(ns.StoreDir(), 0)).To(Succeed())
		Expect(ns.Client.Delete(ctx, etcd)).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "FinalSnapshotTaken")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "SnapshotFailed")))
		})
		ns.Follow(ctx, "operations/final-snapshot.md", "When a deletion waits", map[string]string{"NAMESPACE": ns.Name, "NAME": "main"})
		Eventually(func() bool { return ns.IsGone(ctx, etcd) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
		claims := &corev1.PersistentVolumeClaimList{}
		Expect(ns.Client.List(ctx, claims, client.InNamespace(ns.Name))).To(Succeed())
		Expect(claims.Items).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("is attempted three times before a cluster hibernates, which keeps its volumes", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "hibernation-unsaved")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withRareSnapshots)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 10)

		Expect(os.Chmod(ns.StoreDir(), 0)).To(Succeed())
		DeferCleanup(os.Chmod, ns.StoreDir(), os.FileMode(0o755))
		hibernate(ctx, ns, etcd)
		Expect(framework.Condition(etcd, "FinalSnapshotTaken")).To(And(
			HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "SnapshotFailed"), HaveField("Message", ContainSubstring("3 attempts failed")),
		))

		By("waking up on the volume, with the store")
		Expect(os.Chmod(ns.StoreDir(), 0o755)).To(Succeed())
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 })
		ns.EventuallyReady(ctx, etcd)
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})

// fullName is the name of a full snapshot; its part is the last revision.
var fullName = regexp.MustCompile(`^Full-\d+-(\d+)-\d+`)

// newestFull is the last revision of all full snapshots in the store of the story.
func newestFull(ns *framework.TestNamespace) int64 {
	GinkgoHelper()

	newest := int64(-1)

	for _, path := range snapshots(ns, "Full-") {
		match := fullName.FindStringSubmatch(filepath.Base(path))
		Expect(match).NotTo(BeNil(), path)

		revision, err := strconv.ParseInt(match[1], 10, 64)
		Expect(err).NotTo(HaveOccurred())

		newest = max(newest, revision)
	}

	return newest
}
