// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const (
	drillPage   = "operations/restore-drills.md"
	inspectPage = "operations/inspect-a-backup.md"
)

var _ = Describe("A restore drill", func() {
	It("proves the backup store, and finds a flipped byte", framework.NeedsSeed("changes the directory of the store"), framework.NeedsRestore("restores snapshots"), func(ctx SpecContext) {
		ns, etcd, writeLog := drilledEtcd(ctx, "drill")
		pod := ns.Pod(ctx, etcd)
		writeLog.HoldLeases(ctx, 2, 10*time.Second)
		placeholders := map[string]string{"NAMESPACE": ns.Name, "NAME": "main"}
		Expect(ns.Follow(ctx, drillPage, "Run a drill", placeholders)).To(MatchRegexp(`The snapshots contain the data of revision \d+`))
		ns.Eventually(ctx, etcd, func(g Gomega) {
			condition := framework.Condition(etcd, "RestoreProven")
			g.Expect(condition.Status).To(BeEquivalentTo("True"), condition.Message)
		})
		GinkgoWriter.Println(framework.Condition(etcd, "RestoreProven").Message)

		By("scheduling drills with the command of the page")
		ns.Follow(ctx, drillPage, "Schedule", placeholders)
		Eventually(func(g Gomega) {
			resource := &resourcesv1alpha1.ManagedResource{}
			g.Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "druid-main"}, resource)).To(Succeed())
			g.Expect(resource.Annotations["etcd-druid.extensions.gardener.cloud/restore-drill"]).To(ContainSubstring(`"period":"24h0m0s"`))
		}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)

		By("reading what the store contained, with the commands of the page")
		inspectBackup(ctx, ns, writeLog)

		By("flipping a byte of a full snapshot")
		full := snapshots(ns, "Full-")
		flipByte(full[len(full)-1])
		repairedAfter(ctx, ns, etcd, "SnapshotDamaged")
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID), "the pod was not replaced")
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))

	It("compares the store with three members, and finds missing, overlapping and lost events", Label("long"), framework.NeedsSeed("changes the directory of the store"), framework.NeedsRestore("restores snapshots"), func(ctx SpecContext) {
		ns, etcd, writeLog := drilledEtcd(ctx, "drillevents", fixture.WithReplicas(3))

		By("deleting a delta snapshot")
		deltas := writeDeltas(ctx, ns, writeLog, 3)
		Expect(os.Remove(deltas[len(deltas)-2])).To(Succeed())
		repairedAfter(ctx, ns, etcd, "EventsMissing")

		By("storing a delta snapshot again with another time")
		deltas = writeDeltas(ctx, ns, writeLog, 2)
		newest := deltas[len(deltas)-1]
		begin := strings.LastIndex(newest, "-") + 1
		end := begin + len("1795661994") // seconds since 1970
		at, err := strconv.Atoi(newest[begin:end])
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Link(newest, newest[:begin]+strconv.Itoa(at-1)+newest[end:])).To(Succeed()) // newer than the full snapshot, and older than the next one
		repairedAfter(ctx, ns, etcd, "DeltaSnapshotsOverlap")

		By("writing so many events after a full snapshot that its leases expire during their restore")
		writeLog.HoldLeases(ctx, 3, 2*time.Second)
		task := newTask("full", druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}})
		ns.Create(ctx, task)
		eventuallySucceeded(ctx, ns, task)
		writeLog.WriteMany(ctx, 20000)
		repairedAfter(ctx, ns, etcd, "RestoreDiffers", "RestoreFailed")
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(2*specTimeout))
})

// inspectBackup reads a revision of the backup store, compares it with the running cluster, and exports it. It expects that nothing is left then.
func inspectBackup(ctx context.Context, ns *framework.TestNamespace, writeLog *framework.WriteLog) {
	GinkgoHelper()
	began := time.Now()
	written, revision := writeLog.Written(), writeLog.Revision
	writeLog.Write(ctx, 3) // only the delta snapshot that a comparison takes contains them
	placeholders := map[string]string{
		"NAMESPACE": ns.Name, "NAME": "main", "REVISION": strconv.FormatInt(revision, 10), "OBJECT": "write/000007", "PREFIX": "write/",
		"FILE": filepath.Join(GinkgoT().TempDir(), "keys"),
	}
	Expect(ns.Follow(ctx, inspectPage, "Read a key", placeholders)).To(And(
		ContainSubstring(written["write/000007"]), ContainSubstring("text/plain"), MatchRegexp(`Data: revision %d.*, from Full-`, revision)))
	Expect(ns.Follow(ctx, inspectPage, "Compare with the running cluster", placeholders)).To(And(
		MatchRegexp(`(?m)^\+ write/000020\t`), MatchRegexp(`(?m)^\+ write/000022\t`), Not(MatchRegexp(`(?m)^[-<>] `))))
	Expect(ns.Follow(ctx, inspectPage, "Several reads", placeholders)).To(And(
		MatchRegexp(`(?m)^write/000019\t\d+\t1\t\d+$`), Not(ContainSubstring("write/000020")), ContainSubstring(written["write/000007"])))
	ns.Follow(ctx, inspectPage, "Export", placeholders)
	exported, err := os.ReadFile(placeholders["FILE"])
	Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for line := range strings.Lines(string(exported)) {
		entry := struct {
			Key   string
			Value []byte
		}{}
		Expect(json.Unmarshal([]byte(line), &entry)).To(Succeed())
		found[entry.Key] = string(entry.Value)
	}
	Expect(found).To(Equal(written))

	By("reading a revision that the store does not contain")
	out := &bytes.Buffer{}
	code := app.Run(ctx, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: out}, []string{"inspect", "main", "-n", ns.Name, "--revision=1000000", "list"})
	Expect(code).To(Equal(3), out.String())
	Expect(out.String()).To(MatchRegexp(`the snapshots do not lead to this point: revision 1000000; available revisions: \d+-\d+ \(`))

	By("expecting that nothing is left")
	Eventually(func(g Gomega) {
		tasks, pods := &druidv1alpha1.EtcdOpsTaskList{}, &corev1.PodList{}
		g.Expect(ns.Client.List(ctx, tasks, client.InNamespace(ns.Name))).To(Succeed())
		g.Expect(tasks.Items).NotTo(ContainElement(HaveField("Spec.Config.BackupInspection", Not(BeNil()))))
		g.Expect(ns.Client.List(ctx, pods, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/component": "etcd-backup-inspection-job"})).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
	GinkgoWriter.Println("Inspected the store in", time.Since(began).Round(time.Second))
}

// drilledEtcd creates an Etcd whose store contains a full snapshot and a delta snapshot.
func drilledEtcd(ctx context.Context, name string, changes ...func(*druidv1alpha1.Etcd)) (*framework.TestNamespace, *druidv1alpha1.Etcd, *framework.WriteLog) {
	GinkgoHelper()
	ns := seed.NewNamespace(ctx, name)
	etcd := fixture.Etcd(append(changes, fixture.WithName("main"), withLocalStore(ns), withSmallJobs)...)
	ns.Create(ctx, etcd)
	ns.EventuallyReady(ctx, etcd)
	writeLog := ns.NewWriteLog(etcd)
	writeLog.Write(ctx, 20)
	eventuallyStored(ctx, ns, etcd, writeLog.Revision)
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "BackupReady").Status).To(BeEquivalentTo("True"))
	})

	return ns, etcd, writeLog
}

// writeDeltas writes until there are more delta snapshots, and returns all of them.
func writeDeltas(ctx context.Context, ns *framework.TestNamespace, writeLog *framework.WriteLog, count int) []string {
	GinkgoHelper()
	for range count {
		before := len(snapshots(ns, "Incr-"))
		writeLog.Write(ctx, 5)
		Eventually(func() []string { return snapshots(ns, "Incr-") }).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).
			ShouldNot(HaveLen(before), ns.State)
	}

	return snapshots(ns, "Incr-")
}

// flipByte changes a byte in the middle of a file.
func flipByte(path string) {
	GinkgoHelper()
	content, err := os.ReadFile(path) // #nosec G304 -- a snapshot of the test
	Expect(err).NotTo(HaveOccurred())
	content[len(content)/2] ^= 1
	Expect(os.WriteFile(path, content, 0o600)).To(Succeed()) // #nosec G703 -- a snapshot of the test
}

// repairedAfter requests a drill, and expects that it finds a fault with one of the reasons. The operator then takes a full snapshot, and the second
// drill proves the store.
func repairedAfter(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, reasons ...string) {
	GinkgoHelper()
	full := len(snapshots(ns, "Full-"))
	ns.Patch(ctx, etcd, fixture.WithAnnotation("druid.gardener.cloud/run-task", "restore-drill"))
	ns.Eventually(ctx, etcd, func(g Gomega) {
		condition := framework.Condition(etcd, "RestoreProven")
		g.Expect(condition.Status).To(BeEquivalentTo("False"), condition.Message)
	})
	found := framework.Condition(etcd, "RestoreProven")
	GinkgoWriter.Println(found.Reason, found.Message)
	Expect(reasons).To(ContainElement(found.Reason), found.Message)
	Expect(found.Message).To(MatchRegexp("The operator (takes|took) a full snapshot.*, and repeats the drill"))
	began := time.Now()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		condition := framework.Condition(etcd, "RestoreProven")
		g.Expect(condition.Status).To(BeEquivalentTo("True"), condition.Message)
		g.Expect(len(snapshots(ns, "Full-"))).To(BeNumerically(">", full))
	})
	GinkgoWriter.Println("Proven again after", time.Since(began).Round(time.Second))
}
