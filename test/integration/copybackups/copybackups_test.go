// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups_test

import (
	"context"
	"time"

	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/etcd/copybackupstask"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

var _ = Describe("The component of Gardener as the client", func() {
	component := func(namespace string) copybackupstask.Interface {
		store := func(container, secret string) upstreamv1alpha1.StoreSpec {
			return upstreamv1alpha1.StoreSpec{Provider: new(upstreamv1alpha1.StorageProvider("aws")), Container: &container, Prefix: "shoot--p--s--uid/etcd-main", SecretRef: &corev1.SecretReference{Name: secret}}
		}
		return copybackupstask.New(logf.Log, seed, &copybackupstask.Values{
			Name: "etcd-main", Namespace: namespace,
			SourceStore: store("old", "source-etcd-backup"), TargetStore: store("new", "etcd-backup"),
			WaitForFinalSnapshot: &upstreamv1alpha1.WaitForFinalSnapshotSpec{Enabled: true, Timeout: &metav1.Duration{Duration: 10 * time.Minute}},
		}, 100*time.Millisecond, 10*time.Second, 20*time.Second)
	}

	It("deploys the task, waits for it, and destroys it", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "copy")
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"}}

		By("deploying the task before its Secrets exist")
		Expect(component(namespace).Deploy(ctx)).To(Succeed())
		eventuallyProgressing(ctx, task, "True", "Waiting", "Waiting for Secret source-etcd-backup, which spec.sourceStore needs, to exist")
		createSecret(ctx, namespace, "source-etcd-backup")
		eventuallyProgressing(ctx, task, "True", "Waiting", "Waiting for Secret etcd-backup, which spec.targetStore needs, to exist")
		createSecret(ctx, namespace, "etcd-backup")

		By("copying")
		job := eventuallyJob(ctx, task)
		Expect(job.Spec.Template.Spec.Containers[0].Args).To(ContainElements("copy", "--storage-provider=S3", "--source-storage-provider=S3", "--wait-for-final-snapshot=true", "--wait-for-final-snapshot-timeout=10m0s"))
		Expect(job.Spec.Template.Labels).To(HaveKeyWithValue("networking.gardener.cloud/to-public-networks", "allowed"))
		eventuallyProgressing(ctx, task, "True", "Copying", "Attempt 1 of 7 is about to start")
		Expect(task.Status.LastError).To(BeNil())

		By("failing once")
		pod := createPod(ctx, job, "main-worker-1")
		endPod(ctx, pod, "403: SignatureDoesNotMatch")
		setJob(ctx, job, func(status *batchv1.JobStatus) { status.Failed = 1 })
		eventuallyProgressing(ctx, task, "True", "Copying", "Attempt 2 of 7 is about to start; pod main-worker-1 ended at 2026-01-01T12:00:00Z with code 1: 403: SignatureDoesNotMatch")

		By("waiting for the end of the task like gardenlet")
		done := make(chan error, 1)
		go func() { done <- component(namespace).Wait(ctx) }()
		Consistently(done, time.Second).ShouldNot(Receive())
		complete(ctx, job)
		Eventually(done).Should(Receive(BeNil()))
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		Expect(task.Status.ObservedGeneration).To(HaveValue(Equal(int64(1))))
		metric := func(name string) float64 {
			return environment.Metric(name, "etcd_namespace="+namespace, "task=etcd-main", "state=Succeeded")
		}
		Eventually(metric).WithArguments("etcd_druid_copy_tasks_total").Should(Equal(1.0))
		Eventually(metric).WithArguments("etcd_druid_copy_task_duration_seconds").Should(Equal(1.0))

		By("destroying the task with its Job and pods")
		Expect(component(namespace).Destroy(ctx)).To(Succeed())
		Expect(component(namespace).WaitCleanup(ctx)).To(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Satisfy(apierrors.IsNotFound))
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Satisfy(apierrors.IsNotFound))
		Eventually(metric).WithArguments("etcd_druid_copy_tasks_total").Should(Equal(-1.0))
		Eventually(metric).WithArguments("etcd_druid_copy_task_duration_seconds").Should(Equal(-1.0))
	}, SpecTimeout(2*time.Minute))

	It("reports a copy that failed permanently", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "copy")
		createSecret(ctx, namespace, "source-etcd-backup")
		createSecret(ctx, namespace, "etcd-backup")
		Expect(component(namespace).Deploy(ctx)).To(Succeed())
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"}}
		job := eventuallyJob(ctx, task)
		setJob(ctx, job, func(status *batchv1.JobStatus) {
			status.Failed, status.StartTime = 7, new(metav1.Now())
			for _, conditionType := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
				status.Conditions = append(status.Conditions, batchv1.JobCondition{Type: conditionType, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit"})
			}
		})
		Expect(component(namespace).Wait(ctx)).To(MatchError(ContainSubstring("condition Failed has status True: Job has reached the specified backoff limit")))
		Eventually(environment.Metric).WithArguments("etcd_druid_copy_tasks_total", "etcd_namespace="+namespace, "task=etcd-main", "state=Failed").Should(Equal(1.0))
	}, SpecTimeout(time.Minute))
})

var _ = Describe("EtcdCopyBackupsTask", func() {
	task := func(namespace string, change ...func(*druidv1alpha1.EtcdCopyBackupsTask)) *druidv1alpha1.EtcdCopyBackupsTask {
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main"}, Spec: taskSpec()}
		for _, apply := range change {
			apply(task)
		}
		return task
	}

	DescribeTable("reports which field the user has to change",
		func(ctx SpecContext, change func(*druidv1alpha1.EtcdCopyBackupsTask), message string) {
			task := task(env.Namespace(ctx, "copy"), change)
			Expect(env.Client.Create(ctx, task)).To(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
				g.Expect(task.Status.LastError).To(HaveValue(ContainSubstring(message)))
				g.Expect(conditions.Find(task.Status.Conditions, "Progressing")).To(HaveValue(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "InvalidSpec"))))
			}).Should(Succeed())

			By("continuing after the change")
			patched := task.DeepCopy()
			patched.Spec = taskSpec()
			Expect(env.Client.Patch(ctx, patched, client.MergeFrom(task))).To(Succeed())
			eventuallyJob(ctx, patched)
		},
		Entry("no provider", func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Spec.SourceStore.Provider = nil }, "spec.sourceStore.provider: Required value"),
		Entry("an unknown provider", func(t *druidv1alpha1.EtcdCopyBackupsTask) {
			t.Spec.TargetStore.Provider = new(druidv1alpha1.StorageProvider("ftp"))
		}, "spec.targetStore.provider: Invalid value"),
		Entry("no container, which crashes etcd-druid", func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Spec.SourceStore.Container = nil }, "spec.sourceStore.container: Required value"),
		Entry("no prefix", func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Spec.TargetStore.Prefix = "" }, "spec.targetStore.prefix: set the prefix"),
		Entry("the source as the target", func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Spec.TargetStore.Container = new("old") }, "is the source itself"),
	)

	It("uses the credentials of the BackupEntry that a store references", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "copy")
		entry := &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: "source-" + namespace + "--a1b2"}, Spec: extensionsv1alpha1.BackupEntrySpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "aws"}, BucketName: "bucket-of-the-entry", Region: "r", SecretRef: corev1.SecretReference{Name: "s", Namespace: "garden"},
		}}
		Expect(env.Client.Create(ctx, entry)).To(Succeed())
		entry.Status.ObservedGeneration = entry.Generation
		entry.Status.LastOperation = &gardencorev1beta1.LastOperation{State: gardencorev1beta1.LastOperationStateSucceeded, Type: gardencorev1beta1.LastOperationTypeCreate, Description: "d", LastUpdateTime: metav1.Now()}
		entry.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"secretRef":{"name":"published"}}`)}
		Expect(env.Client.Status().Update(ctx, entry)).To(Succeed())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "published", Annotations: map[string]string{"backup.gardener.cloud/created-by": entry.Name}}}
		Expect(env.Client.Create(ctx, secret)).To(Succeed())

		task := task(namespace, func(t *druidv1alpha1.EtcdCopyBackupsTask) {
			t.Spec.SourceStore = druidv1alpha1.StoreSpec{Prefix: "demo/main", BackupEntryRef: &druidv1alpha1.BackupEntryReference{Name: entry.Name}}
		})
		Expect(env.Client.Create(ctx, task)).To(Succeed())
		Expect(eventuallyJob(ctx, task).Spec.Template.Spec.Containers[0].Args).To(ContainElement("--source-store-container=bucket-of-the-entry"))
	}, SpecTimeout(time.Minute))

	It("copies again when it changes, and does not repeat a copy that has ended", func(ctx SpecContext) {
		task := task(env.Namespace(ctx, "copy"))
		Expect(env.Client.Create(ctx, task)).To(Succeed())
		job := eventuallyJob(ctx, task)
		complete(ctx, job)
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
			g.Expect(conditions.Find(task.Status.Conditions, "Succeeded")).To(HaveValue(HaveField("Status", BeEquivalentTo("True"))))
		}).Should(Succeed())

		By("not recreating a deleted Job")
		Expect(env.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Consistently(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(job), &batchv1.Job{}) }, 2*time.Second).Should(Satisfy(apierrors.IsNotFound))

		By("copying the new generation")
		before := task.DeepCopy()
		task.Spec.MaxBackups = new(uint32(3))
		Expect(env.Client.Patch(ctx, task, client.MergeFrom(before))).To(Succeed())
		Expect(eventuallyJob(ctx, task).Spec.Template.Spec.Containers[0].Args).To(ContainElement("--max-backups-to-copy=3"))
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
			g.Expect(conditions.Find(task.Status.Conditions, "Succeeded")).To(BeNil())
		}).Should(Succeed())
	}, SpecTimeout(time.Minute))

	It("replaces the Job of an earlier generation", func(ctx SpecContext) {
		task := task(env.Namespace(ctx, "copy"))
		Expect(env.Client.Create(ctx, task)).To(Succeed())
		job := eventuallyJob(ctx, task)

		before := task.DeepCopy()
		task.Spec.MaxBackups = new(uint32(3))
		Expect(env.Client.Patch(ctx, task, client.MergeFrom(before))).To(Succeed())
		Eventually(func(g Gomega) {
			replaced := &batchv1.Job{}
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), replaced)).To(Succeed())
			g.Expect(replaced.UID).NotTo(Equal(job.UID))
			g.Expect(replaced.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/generation", "2"))
		}).Should(Succeed())
	}, SpecTimeout(time.Minute))

	It("does not modify a Job that does not belong to the task", func(ctx SpecContext) {
		task := task(env.Namespace(ctx, "copy"))
		foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: "main-worker"}}
		foreign.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		foreign.Spec.Template.Spec.Containers = []corev1.Container{{Name: "x", Image: "registry.example.com/x:v1"}}
		Expect(env.Client.Create(ctx, foreign)).To(Succeed())
		Expect(env.Client.Create(ctx, task)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
			g.Expect(task.Status.LastError).To(HaveValue(ContainSubstring("exists and does not belong to this task")))
		}).Should(Succeed())
		Expect(env.Client.Delete(ctx, task)).To(Succeed())
		Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(task), task) }).Should(Satisfy(apierrors.IsNotFound))
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
		Expect(foreign.DeletionTimestamp).To(BeNil())
	}, SpecTimeout(time.Minute))
})

func taskSpec() druidv1alpha1.EtcdCopyBackupsTaskSpec {
	store := func(container string) druidv1alpha1.StoreSpec {
		return druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: &container, Prefix: "demo/main"}
	}
	return druidv1alpha1.EtcdCopyBackupsTaskSpec{SourceStore: store("old"), TargetStore: store("new")}
}

func createSecret(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).To(Succeed())
}

func eventuallyJob(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) *batchv1.Job {
	GinkgoHelper()
	job := &batchv1.Job{}
	Eventually(func() error {
		return env.Client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: task.Name + "-worker"}, job)
	}).Should(Succeed())
	return job
}

func eventuallyProgressing(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask, status, reason, message string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		g.Expect(conditions.Find(task.Status.Conditions, "Progressing")).To(HaveValue(And(
			HaveField("Status", BeEquivalentTo(status)), HaveField("Reason", reason), HaveField("Message", message),
		)))
	}).Should(Succeed())
}

func setJob(ctx context.Context, job *batchv1.Job, change func(*batchv1.JobStatus)) {
	GinkgoHelper()
	Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
	change(&job.Status)
	Expect(env.Client.Status().Update(ctx, job)).To(Succeed())
}

func complete(ctx context.Context, job *batchv1.Job) {
	GinkgoHelper()
	setJob(ctx, job, func(status *batchv1.JobStatus) {
		status.Succeeded, status.StartTime, status.CompletionTime = 1, new(metav1.Now()), new(metav1.Now())
		for _, conditionType := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			status.Conditions = append(status.Conditions, batchv1.JobCondition{Type: conditionType, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		}
	})
}

func createPod(ctx context.Context, job *batchv1.Job, name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = job.Namespace, name
	Expect(pod.Labels).To(HaveKeyWithValue(batchv1.ControllerUidLabel, string(job.UID)))
	Expect(env.Client.Create(ctx, pod)).To(Succeed())
	return pod
}

func endPod(ctx context.Context, pod *corev1.Pod, message string) {
	GinkgoHelper()
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "copy-backups", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", Message: message, FinishedAt: metav1.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
	}}}}
	Expect(env.Client.Status().Update(ctx, pod)).To(Succeed())
}
