// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// withoutDeltaSnapshots disables delta snapshots for the duration of a test. The store then contains only requested snapshots.
func withoutDeltaSnapshots(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: time.Hour}
}

func withDeleteAll(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicy("DeleteAll"))
}

var _ = Describe("The final snapshot", func() {
	It("contains the last acknowledged write when a cluster hibernates, which wakes up with every key", gate, framework.NeedsSeed("reads the directory of the Local store"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "hibernation-saved")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(ns), withoutDeltaSnapshots)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0) // the sidecar takes it at its start
		claims := claimUIDs(ctx, ns)

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 50)
		Expect(newestFull(ns)).To(BeNumerically("<", writeLog.Revision))
		began := time.Now()
		hibernate(ctx, ns, etcd)
		AddReportEntry("hibernated", time.Since(began).Round(time.Second).String(), ReportEntryVisibilityAlways)

		Expect(newestFull(ns)).To(BeNumerically(">=", writeLog.Revision))
		Expect(framework.Condition(etcd, "FinalSnapshotTaken")).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "SnapshotVerified")))
		Expect(snapshots(ns, "Full-")).NotTo(ContainElement(HaveSuffix(".final")))

		By("waking up, with members that have data while no other member responds")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		ns.EventuallyReady(ctx, etcd)
		Expect(voters(etcd)).To(Equal(3))
		Expect(claimUIDs(ctx, ns)).To(Equal(claims))
		writeLog.ExpectComplete(ctx)
		expectForbidden(ns.Admin.SubResource("scale").Patch(ctx, statefulSet(ctx, ns, etcd), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))))

		By("deleting the namespace, in which the operator still has to delete the Etcd")
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
		Expect(ns.Client.Delete(ctx, namespace)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, namespace) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
	}, SpecTimeout(specTimeout))

	It("contains the last acknowledged write, and the operator deletes nothing before the store contains the snapshot", SpecPriority(5), framework.NeedsSeed("changes the mode of the directory of the Local store"), framework.NeedsRestore("restores a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "deletion-saved")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withoutDeltaSnapshots, withDeleteAll)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 50)
		pod, claim := ns.Pod(ctx, etcd), ns.Claim(ctx, etcd)

		By("deleting the Etcd while the store accepts no snapshots")
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

		By("making the store accept snapshots again")
		Expect(os.Chmod(ns.StoreDir(), 0o755)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, etcd) && ns.IsGone(ctx, claim) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
		Expect(newestFull(ns)).To(BeNumerically(">=", writeLog.Revision))

		By("creating the Etcd again from the store")
		etcd = fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withoutDeltaSnapshots, withDeleteAll)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Claim(ctx, etcd).UID).NotTo(Equal(claim.UID))
		ns.NewWriteLog(etcd).ExpectContained(ctx, writeLog.Written())

		By("deleting the Etcd without a final snapshot")
		Expect(os.Chmod(ns.StoreDir(), 0)).To(Succeed())
		Expect(ns.Client.Delete(ctx, etcd)).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "FinalSnapshotTaken")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "SnapshotFailed")))
		})
		ns.Follow(ctx, "operations/final-snapshot.md", "Unblock a deletion", map[string]string{"NAMESPACE": ns.Name, "NAME": "main"})
		Eventually(func() bool { return ns.IsGone(ctx, etcd) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
		claims := &corev1.PersistentVolumeClaimList{}
		Expect(ns.Client.List(ctx, claims, client.InNamespace(ns.Name))).To(Succeed())
		Expect(claims.Items).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("contains each write that etcd acknowledges until the members of a deleted Etcd have stopped", framework.NeedsRestore("restores a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "deletion-writes")
		create := func() *druidv1alpha1.Etcd {
			etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(ns), withoutDeltaSnapshots, withDeleteAll)
			ns.Create(ctx, etcd)
			ns.EventuallyReady(ctx, etcd)

			return etcd
		}
		etcd := create()
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 10)
		Expect(ns.Client.Delete(ctx, etcd)).To(Succeed())
		rejected := writeLog.WriteUntilRejected(ctx)
		AddReportEntry("rejected", fmt.Sprintf("after %d writes: %s", len(writeLog.Written()), rejected), ReportEntryVisibilityAlways)
		Expect(len(writeLog.Written())).To(BeNumerically(">", 10), "the client wrote while the snapshot was taken")
		Eventually(func() bool { return ns.IsGone(ctx, etcd) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)

		By("creating the Etcd again from the store")
		etcd = create()
		restored := ns.NewWriteLog(etcd)
		restored.ExpectContained(ctx, writeLog.Written())
		restored.Write(ctx, 1)
	}, SpecTimeout(specTimeout))
})

// hibernate sets the replicas to 0 and waits until no pod exists and the status reports it.
func hibernate(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })
	ns.Eventually(ctx, etcd, func(g Gomega) {
		pods := &corev1.PodList{}
		g.Expect(ns.Client.List(ctx, pods, client.InNamespace(ns.Name))).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())

		g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(Equal(etcd.Generation)))
		g.Expect(etcd.Status.LastOperation.State).To(BeEquivalentTo("Succeeded"))
		g.Expect(etcd.Status.Replicas).To(BeZero())
		g.Expect(etcd.Status.ReadyReplicas).To(BeZero())
		g.Expect(framework.Condition(etcd, "AllMembersReady").Reason).To(Equal("NotChecked"))

		statefulSet := &appsv1.StatefulSet{}
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
		g.Expect(statefulSet.Spec.Replicas).To(HaveValue(BeZero()))
	})
}

// fullName matches the name of a full snapshot. The group is the last revision.
var fullName = regexp.MustCompile(`^Full-\d+-(\d+)-\d+`)

// newestFull returns the last revision of the full snapshots in the store of the namespace, or -1 if there is none.
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
