// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// withSmallJobs reduces the resource requests of compaction Jobs to what the nodes of the local seed have.
func withSmallJobs(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Backup.SnapshotCompaction = &druidv1alpha1.SnapshotCompactionSpec{Resources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
	}}
}

var _ = Describe("EtcdOpsTasks", func() {
	It("are executed one after another, and report their results", framework.NeedsRestore("compacts snapshots"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "tasks")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withSmallJobs)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 50)
		pod := ns.Pod(ctx, etcd)
		// The sidecar rejects a snapshot until it knows that its member is the leader. That would count as an attempt.
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "BackupReady").Status).To(BeEquivalentTo("True"))
		})

		By("creating a task of each kind")
		tasks := []*druidv1alpha1.EtcdOpsTask{
			newTask("a-full", druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}}),
			newTask("b-delta", druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "delta"}}),
			newTask("c-compaction", druidv1alpha1.EtcdOpsTaskConfig{Compaction: &druidv1alpha1.CompactionConfig{}}),
			newTask("d-defragmentation", druidv1alpha1.EtcdOpsTaskConfig{Defragmentation: &druidv1alpha1.DefragmentationConfig{}}),
		}
		for _, task := range tasks {
			ns.Create(ctx, task)
		}

		for _, task := range tasks {
			eventuallySucceeded(ctx, ns, task)
			Expect(task.Status.LastErrors).To(BeEmpty())
			GinkgoWriter.Printf("%s: %s\n", task.Name, task.Status.LastOperation.Description)
		}
		for i := range tasks[1:] {
			Expect(tasks[i+1].Status.StartedAt.Time).NotTo(BeTemporally("<", tasks[i].Status.LastTransitionTime.Time), "a task starts after the previous one has ended")
		}

		By("checking the results")
		Expect(tasks[0].Status.Snapshot.Name).To(HavePrefix("Full-"))
		Expect(tasks[0].Status.Snapshot.Revision).To(BeNumerically(">=", 51), "the snapshot contains every key")
		Expect(tasks[0].Status.Snapshot.SizeBytes).To(HaveValue(BeNumerically(">", 0)))
		Expect(tasks[2].Status.Snapshot.Name).To(HavePrefix("Full-"))
		Expect(tasks[3].Status.Members).To(ConsistOf(HaveField("Name", "main-0")))
		ns.Eventually(ctx, etcd, func(g Gomega) {
			condition := framework.Condition(etcd, "LastSnapshotCompactionSucceeded")
			g.Expect(condition.Status).To(BeEquivalentTo("True"), condition.Message)
			g.Expect(ns.IsGone(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "main-compactor"}})).To(BeTrue())
		})

		By("taking a snapshot with the commands of the page about tasks")
		writeLog.Write(ctx, 5)
		placeholders := map[string]string{"NAMESPACE": ns.Name, "NAME": etcd.Name}
		const page = "operations/on-demand-snapshot.md"
		Expect(ns.Follow(ctx, page, "Take a full snapshot now", placeholders)).To(MatchRegexp(`Snapshot (Full-\S+) holds everything up to revision \d+`))

		By("requesting a snapshot by annotation with the commands of the page")
		writeLog.Write(ctx, 5)
		ns.Follow(ctx, page, "Request a task with an annotation", placeholders)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			created := &druidv1alpha1.EtcdOpsTaskList{}
			g.Expect(ns.Client.List(ctx, created, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/part-of": "main"})).To(Succeed())
			g.Expect(created.Items).To(HaveLen(1))
			g.Expect(created.Items[0].Status.State).To(HaveValue(BeEquivalentTo("Succeeded")))
			g.Expect(created.Items[0].Status.Snapshot.Revision).To(BeNumerically(">", tasks[0].Status.Snapshot.Revision))
			g.Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/run-task"))
		})

		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(operator.MissingMetrics).WithContext(ctx).WithArguments("tasks").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(BeEmpty())
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID), "the pod was not replaced")
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})

// defragment defragments all members and expects that the leader is the last. It reads the leader before the task
// starts. A leader election during the task fails the test.
func defragment(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	writeLog := ns.NewWriteLog(etcd)
	writeLog.Write(ctx, 20)
	var before string
	ns.Eventually(ctx, etcd, func(g Gomega) {
		before = findLeader(etcd)
		g.Expect(before).NotTo(BeEmpty())
	})

	task := newTask("defragment", druidv1alpha1.EtcdOpsTaskConfig{Defragmentation: &druidv1alpha1.DefragmentationConfig{}})
	ns.Create(ctx, task)
	eventuallySucceeded(ctx, ns, task)
	Expect(task.Status.Members).To(HaveLen(int(etcd.Spec.Replicas)))
	Expect(task.Status.Members[etcd.Spec.Replicas-1].Name).To(Equal(before))
	for _, member := range task.Status.Members {
		GinkgoWriter.Printf("%s was unavailable for %s: %d → %d bytes\n", member.Name, member.Stall.Duration, member.SizeBytesBefore, member.SizeBytesAfter)
	}
	writeLog.ExpectComplete(ctx)
	ns.EventuallyReady(ctx, etcd)
}

func newTask(name string, config druidv1alpha1.EtcdOpsTaskConfig) *druidv1alpha1.EtcdOpsTask {
	return &druidv1alpha1.EtcdOpsTask{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       druidv1alpha1.EtcdOpsTaskSpec{EtcdName: new("main"), Config: config},
	}
}

// eventuallyTask waits until check succeeds for the newest state of the task.
func eventuallyTask(ctx context.Context, ns *framework.TestNamespace, task *druidv1alpha1.EtcdOpsTask, check func(Gomega)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		check(g)
	}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
}

func eventuallySucceeded(ctx context.Context, ns *framework.TestNamespace, task *druidv1alpha1.EtcdOpsTask) {
	GinkgoHelper()
	eventuallyTask(ctx, ns, task, func(g Gomega) {
		g.Expect(task.Status.State).To(HaveValue(BeEquivalentTo("Succeeded")), "%v %v", task.Status.LastOperation, task.Status.LastErrors)
	})
}
