// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("A single member", func() {
	It("keeps data that is newer than the store, is restored from the store without data, and keeps its volume after a deletion", gate, SpecPriority(10), framework.NeedsSeed("changes the directory of a volume"), framework.NeedsRestore("restores a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "restoration")
		without := objectsIn(ctx, ns)
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		By("taking a full snapshot, and delta snapshots of later writes")
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 60)
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0)
		writeLog.Write(ctx, 60)
		eventuallySnapshot(ctx, ns, etcd, "main-delta-snap", writeLog.Revision)
		Expect(snapshots(ns, "Full-")).NotTo(BeEmpty())
		Expect(snapshots(ns, "Incr-")).NotTo(BeEmpty())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "BackupReady")).To(HaveField("Status", BeEquivalentTo("True")))
		})
		stored := writeLog.Written()

		By("restarting the member after writes that the store has not accepted")
		Expect(os.Chmod(ns.StoreDir(), 0)).To(Succeed())
		DeferCleanup(os.Chmod, ns.StoreDir(), os.FileMode(0o755))
		writeLog.Write(ctx, 5)
		pod, directory := ns.Pod(ctx, etcd), ns.VolumeDir(ctx, etcd)
		ns.Kill(ctx, pod)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			next, found := ns.FindPod(ctx, etcd)
			g.Expect(found && next.UID == pod.UID).To(BeFalse())
		})
		Expect(storedRevision(ns.StoreDir())).To(BeNumerically("<", writeLog.Revision))
		Expect(os.Chmod(ns.StoreDir(), 0o755)).To(Succeed())
		pod = ns.EventuallyReplaced(ctx, etcd, pod)
		writeLog.ExpectComplete(ctx)

		By("writing keys that no snapshot contains, and deleting all files on the volume")
		writeLog.Write(ctx, 5)

		Expect(filepath.Join(directory, "new.etcd")).To(BeADirectory())
		removeContents(directory)
		ns.Kill(ctx, pod)
		pod = ns.EventuallyReplaced(ctx, etcd, pod)

		By("restoring every key that the store contains")
		Expect(ns.ContainerLog(ctx, pod, "backup-restore")).To(ContainSubstring("Successfully restored the etcd data directory"))
		Expect(filepath.Join(directory, "new.etcd")).To(BeADirectory())
		writeLog.ExpectContained(ctx, stored)
		Expect(ns.Claim(ctx, etcd).Status.Phase).To(BeEquivalentTo("Bound"))

		By("taking snapshots again")
		after := ns.NewWriteLog(etcd)
		after.Write(ctx, 1)
		Eventually(func(g Gomega) {
			g.Expect(max(lastRevision(ctx, ns, "main-full-snap"), lastRevision(ctx, ns, "main-delta-snap"))).To(BeNumerically(">=", after.Revision))
		}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)

		By("deleting the Etcd, of which only the volume remains")
		claim := ns.Claim(ctx, etcd)
		Expect(ns.Client.Delete(ctx, etcd)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, etcd) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
		expectRemaining(ctx, ns, append(without, "PersistentVolumeClaim main-main-0")...)

		By("creating the Etcd again, with the volume")
		etcd = fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Claim(ctx, etcd).UID).To(Equal(claim.UID))
		ns.NewWriteLog(etcd).ExpectContained(ctx, after.Written())
	}, SpecTimeout(specTimeout))

	It("without data is reported if the store was reset to an earlier state, until a user accepts the loss", Label("long"), framework.NeedsSeed("changes the directory of a volume"), framework.NeedsRestore("restores a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "rollback")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		eventuallyStored(ctx, ns, etcd, writeLog.Revision)
		earlier := snapshots(ns, "")

		By("writing more keys, and waiting until the operator records their revision")
		writeLog.Write(ctx, 200)
		eventuallyStored(ctx, ns, etcd, writeLog.Revision)
		eventuallyRecorded(ctx, ns, etcd, writeLog.Revision)

		By("resetting the store, and deleting all files on the volume")
		for _, path := range snapshots(ns, "") {
			if !slices.Contains(earlier, path) {
				Expect(os.Remove(path)).To(Succeed())
			}
		}
		pod, directory := ns.Pod(ctx, etcd), ns.VolumeDir(ctx, etcd)
		removeContents(directory)
		ns.Kill(ctx, pod)
		ns.EventuallyReplaced(ctx, etcd, pod)

		By("reporting the loss")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			condition := framework.Condition(etcd, "RevisionConfirmed")
			g.Expect(condition).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "RevisionRolledBack")))
			g.Expect(etcd.Status.LastErrors).To(BeEmpty(), "gardenlet waits while there are errors")
		})
		match := regexp.MustCompile(`accept-revision=(\d+)`).FindStringSubmatch(framework.Condition(etcd, "RevisionConfirmed").Message)
		Expect(match).To(HaveLen(2))

		By("accepting the loss")
		ns.Follow(ctx, "operations/alerts.md", "Accept the loss", map[string]string{"NAMESPACE": ns.Name, "NAME": "main", "REVISION": match[1]})
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "RevisionConfirmed")).To(HaveField("Status", BeEquivalentTo("True")))
			g.Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/accept-revision"))
		})
	}, SpecTimeout(specTimeout))

	It("is restored from the store if its data is corrupt after a scale-in", framework.NeedsSeed("changes the files of a volume"), framework.NeedsRestore("restores a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "restored-after-scale-in")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), fixture.WithReplicas(3))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 })
		ns.EventuallyReady(ctx, etcd)
		eventuallyStored(ctx, ns, etcd, writeLog.Revision)

		pod := ns.Pod(ctx, etcd)
		ns.Corrupt(ctx, "main-main-0")
		ns.Crash(pod, "etcd")
		pod = ns.EventuallyReplaced(ctx, etcd, pod)
		Expect(ns.ContainerLog(ctx, pod, "backup-restore")).To(ContainSubstring("Successfully restored the etcd data directory"))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})

// eventuallySnapshot waits until the Lease reports a snapshot with this revision or a later one.
func eventuallySnapshot(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, lease string, revision int64) {
	GinkgoHelper()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(lastRevision(ctx, ns, lease)).To(BeNumerically(">=", revision), "the revision in Lease %s", lease)
	})
}

// lastRevision returns the revision that the sidecar has written into the Lease, or -1 before the first snapshot.
func lastRevision(ctx context.Context, ns *framework.TestNamespace, name string) int64 {
	GinkgoHelper()

	lease := &coordinationv1.Lease{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, lease)).To(Succeed())

	if lease.Spec.RenewTime == nil {
		return -1
	}

	revision, err := strconv.ParseInt(ptr.Deref(lease.Spec.HolderIdentity, ""), 10, 64)
	Expect(err).NotTo(HaveOccurred())

	return revision
}

// snapshots returns the paths of the files in the store of the namespace whose names begin with the prefix.
func snapshots(ns *framework.TestNamespace, prefix string) []string {
	GinkgoHelper()

	return snapshotsIn(ns.StoreDir(), prefix)
}

// snapshotsIn returns the paths of the files in the directory whose names begin with the prefix.
func snapshotsIn(directory, prefix string) []string {
	GinkgoHelper()

	var found []string

	Expect(filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) {
			found = append(found, path)
		}

		return err
	})).To(Succeed())

	return found
}

// removeContents deletes all files and directories in the directory.
func removeContents(directory string) {
	GinkgoHelper()

	entries, err := os.ReadDir(directory)
	Expect(err).NotTo(HaveOccurred())

	for _, entry := range entries {
		Expect(os.RemoveAll(filepath.Join(directory, entry.Name()))).To(Succeed())
	}
}
