// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// eventsThreshold is the number of events after which withFrequentSnapshots starts a compaction.
const eventsThreshold = 4000

// withFrequentSnapshots schedules a full snapshot every three minutes, and a compaction after eventsThreshold events. On a slow machine, a compaction takes
// two minutes from the last snapshot. The sidecar keeps two full snapshots, and collects garbage as often as possible. The compression is not the default one.
func withFrequentSnapshots(etcd *druidv1alpha1.Etcd) {
	withSmallJobs(etcd)
	backup := &etcd.Spec.Backup
	backup.SnapshotCompaction.EventsThreshold = new(int64(eventsThreshold))
	backup.FullSnapshotSchedule = new("*/3 * * * *")
	backup.SnapshotCompression = &druidv1alpha1.CompressionSpec{Enabled: new(true), Policy: new(druidv1alpha1.ZlibCompression)}
	backup.GarbageCollectionPolicy = new(druidv1alpha1.GarbageCollectionPolicyLimitBased)
	backup.MaxBackupsLimitBasedGC = new(int32(2))
	backup.GarbageCollectionPeriod = &metav1.Duration{Duration: backup.DeltaSnapshotPeriod.Duration + time.Second} // it must be longer
}

var _ = Describe("A cluster that has lost every volume", func() {
	It("is restored with every key by the commands of the runbook, from the snapshots that schedule, compaction and garbage collection have left in S3", SpecPriority(9), framework.NeedsSeed("deletes volumes"), framework.NeedsRestore("restores a snapshot"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "everyvolume")
		objectStore := ns.StartObjectStoreWithTLS(ctx)
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withObjectStore(objectStore, "S3", "demo/main"), withFrequentSnapshots)
		etcd.Spec.Etcd.EnableTLS = new(true)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		placeholders := map[string]string{"NAMESPACE": ns.Name, "NAME": "main"}

		folder := filepath.Join(objectStore.Dir(ctx, "test"), "demo", "main")
		list := func() []snapshot {
			GinkgoHelper()
			stored, err := listSnapshots(folder)
			Expect(err).NotTo(HaveOccurred())

			return stored
		}

		By("writing before a scheduled snapshot")
		writeLog := ns.NewWriteLog(etcd)
		writeLog.WriteMany(ctx, eventsThreshold-2000)
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", writeLog.Revision)
		oldest := list()[0]

		By("writing until the number of events starts a compaction")
		var known []snapshot
		Eventually(func(g Gomega) {
			// The compaction begins after a scheduled snapshot, and has the time until the next one. If that makes the compaction
			// unnecessary, there is another attempt.
			known = fullSnapshots(list())
			g.Eventually(func() []snapshot { return fullSnapshots(list()) }).WithContext(ctx).WithTimeout(4 * time.Minute).WithPolling(framework.PollInterval).
				Should(ContainElement(Satisfy(func(s snapshot) bool { return !slices.Contains(known, s) })))
			known = fullSnapshots(list())
			writeLog.WriteMany(ctx, eventsThreshold+1000)
			g.Eventually(func(g Gomega) {
				g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
				g.Expect(framework.Condition(etcd, "LastSnapshotCompactionSucceeded").Status).To(BeEquivalentTo("True"))
				expectCompacted(ctx, g, ns, etcd, list(), known) // the condition may still show the compaction of an earlier attempt
			}).WithContext(ctx).WithTimeout(3 * time.Minute).WithPolling(framework.PollInterval).Should(Succeed())
		}).WithContext(ctx).WithTimeout(2*framework.ReadyTimeout).Should(Succeed(), ns.State)

		By("writing before the next snapshot, and waiting for a garbage collection")
		writeLog.WriteMany(ctx, eventsThreshold-3000)
		eventuallyStored(ctx, ns, etcd, writeLog.Revision) // in a delta snapshot, or in a full one if one is due before
		Eventually(func(g Gomega) {
			stored := list()
			full := fullSnapshots(stored)
			g.Expect(full).To(HaveLen(2))
			g.Expect(stored).NotTo(ContainElement(oldest))
			g.Expect(stored).To(HaveEach(Or(HaveField("IsFull", true), HaveField("First", BeNumerically(">", full[1].Last)))), "no delta snapshot is older than the newest full snapshot")
			g.Expect(stored).To(HaveEach(HaveField("Name", HaveSuffix(".zlib"))))
		}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)

		By("requesting a restore of a healthy cluster, which the operator ignores")
		pod := ns.Pod(ctx, etcd)
		ns.Follow(ctx, "operations/restore-from-backup.md", "Restore without verification", placeholders)
		ns.Eventually(ctx, etcd, func(g Gomega) { g.Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/restore")) })
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))

		By("deleting all volumes")
		lost := destroyVolumes(ctx, ns, etcd)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("False"))
			g.Expect(framework.Condition(etcd, "AllMembersReady").Status).To(BeEquivalentTo("False"))
		})

		By("following the runbook, with an interruption of the first member's restore")
		ns.Follow(ctx, "operations/restore-from-backup.md", "Check", placeholders)
		start := time.Now()
		interrupted := make(chan bool, 1)
		go func() {
			defer GinkgoRecover()
			interrupted <- interruptRestore(ctx, ns, etcd, lost)
		}()
		ns.Follow(ctx, "operations/restore-from-backup.md", "Restore", placeholders)
		ns.EventuallyReady(ctx, etcd)
		Expect(<-interrupted).To(BeTrue(), "the restore was not interrupted")

		writeLog.ExpectComplete(ctx)
		Expect(ns.VolumeDirs(ctx, etcd)).To(HaveLen(3))
		reportRestore(ctx, ns, etcd, time.Since(start))
	}, SpecTimeout(2*specTimeout)) // it waits for two scheduled snapshots, and the creation and the restore of the cluster each restart the first member
})

// fullSnapshots returns the full snapshots in the list.
func fullSnapshots(stored []snapshot) []snapshot {
	return slices.DeleteFunc(slices.Clone(stored), func(s snapshot) bool { return !s.IsFull })
}

// expectCompacted expects that a new full snapshot in the list is the result of a compaction. No sidecar of a member has taken it, it has the
// compression of the Etcd, and the Lease contains its revision or a later one.
func expectCompacted(ctx context.Context, g Gomega, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, stored, known []snapshot) {
	GinkgoHelper()

	var logs strings.Builder
	for ordinal := range int(etcd.Spec.Replicas) {
		logs.WriteString(ns.ContainerLog(ctx, memberPod(ctx, ns, ordinal), "backup-restore"))
	}

	var compacted snapshot
	g.Expect(stored).To(ContainElement(Satisfy(func(s snapshot) bool {
		return s.IsFull && !slices.Contains(known, s) && !strings.Contains(logs.String(), s.Name) && strings.HasSuffix(s.Name, ".zlib")
	}), &compacted))
	g.Expect(lastRevision(ctx, ns, etcd.Name+"-full-snap")).To(BeNumerically(">=", compacted.Last))
}

// takeFullSnapshot requests a full snapshot from the sidecar.
func takeFullSnapshot(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()

	config, err := ns.Connection(ctx, etcd)
	Expect(err).NotTo(HaveOccurred())
	Eventually(requestSidecar).WithContext(ctx).WithArguments(ns, etcd, config, "/snapshot/full").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Equal(200), ns.State)
}

// destroyVolumes deletes the PersistentVolumes of all members, and all pods. It returns the directories of the volumes.
func destroyVolumes(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) []string {
	GinkgoHelper()

	dirs := ns.VolumeDirs(ctx, etcd)
	Expect(dirs).To(HaveLen(int(etcd.Spec.Replicas)))

	for ordinal := range dirs {
		ns.DeleteVolume(ctx, fmt.Sprintf("main-main-%d", ordinal))
	}

	Expect(ns.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/part-of": etcd.Name}, client.GracePeriodSeconds(0))).To(Succeed())

	return dirs
}

// interruptRestore deletes the pod of the first member while its sidecar restores to a new volume. It returns whether it has
// deleted the pod during a restore.
func interruptRestore(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, lost []string) bool {
	pattern := filepath.Join(filepath.Dir(lost[0]), fmt.Sprintf("%s_%s-%s-0_*", ns.Name, etcd.Name, etcd.Name), "new.etcd.part", "member")

	for ctx.Err() == nil {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			if pod, exists := ns.FindPod(ctx, etcd); exists {
				return client.IgnoreNotFound(ns.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))) == nil
			}
		}

		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}

	return false
}

// reportRestore adds the duration of the restore to the report.
func reportRestore(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, all time.Duration) {
	GinkgoHelper()

	info, err := os.Stat(filepath.Join(ns.VolumeDir(ctx, etcd), "new.etcd", "member", "snap", "db"))
	Expect(err).NotTo(HaveOccurred())

	size := float64(info.Size()) / (1 << 20)
	AddReportEntry(fmt.Sprintf("restored %d members with a database of %.1f MiB in %s: %.2f seconds per MiB", etcd.Spec.Replicas, size, all.Round(time.Second), all.Seconds()/size), ReportEntryVisibilityAlways)
}
