// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Compaction", func() {
	It("runs a Job when the threshold is reached, with the accepted image, and deletes the completed Job", func() {
		c := newCluster()
		c.recordRevision(c.delta, 1099)
		Consistently(c.jobNames).Should(BeEmpty())
		c.recordRevision(c.delta, 1100)

		job := c.waitForJob("1")
		Expect(job.Spec.Template.Spec.Containers[0].Image).To(Equal("example.com/pinned:v1"))
		Expect(job.Spec.ActiveDeadlineSeconds).To(HaveValue(BeEquivalentTo(3600)))
		Eventually(c.metric).WithArguments("etcddruid_compaction_jobs_current").Should(Equal(1.0))
		Expect(c.metric("etcddruid_compaction_num_delta_events")).To(Equal(100.0))

		c.recordRevision(c.full, 1100)
		c.endJob(job, batchv1.JobComplete, "CompletionsReached")
		Eventually(func(g Gomega) {
			status, reason, message := c.condition(g)
			g.Expect(status).To(Equal("True"))
			g.Expect(reason).To(Equal("None"))
			g.Expect(message).To(Equal("Job test-compactor has compacted the snapshots"))
			g.Expect(c.metric("etcddruid_compaction_jobs_total", "succeeded=true", "failureReason=none")).To(Equal(1.0))
			g.Expect(c.metric("etcddruid_compaction_job_duration_seconds", "succeeded=true", "failureReason=none")).To(Equal(1.0))
			g.Expect(c.metric("etcddruid_compaction_jobs_current")).To(Equal(0.0))
			g.Expect(c.metric("etcddruid_compaction_num_delta_events")).To(Equal(0.0))
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			g.Expect(job.DeletionTimestamp).NotTo(BeNil(), "no garbage collector runs here")
		}).Should(Succeed())
	})

	It("treats a Job that has compacted nothing as failed, and requests a full snapshot after three Jobs", func() {
		c := newCluster()
		c.recordRevision(c.delta, 1150)
		first := c.waitForJob("1")
		c.endJob(first, batchv1.JobComplete, "CompletionsReached")
		Eventually(func(g Gomega) {
			status, reason, message := c.condition(g)
			g.Expect(status).To(Equal("False"))
			g.Expect(reason).To(Equal("ProcessFailure"))
			g.Expect(message).To(HavePrefix("Attempt 1 of the Job has compacted nothing: "))
			g.Expect(c.metric("etcddruid_compaction_jobs_total", "succeeded=false", "failureReason=processFailure")).To(Equal(1.0))
		}).Should(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(first), first)).To(Succeed())
			g.Expect(first.DeletionTimestamp).To(BeNil())
		}).Should(Succeed(), "the backoff has not ended")

		clock.Step(61 * time.Second)
		c.recordRevision(c.delta, 1151)
		c.endJob(c.waitForJob("2"), batchv1.JobComplete, "CompletionsReached")
		Eventually(func() float64 {
			return c.metric("etcddruid_compaction_jobs_total", "succeeded=false", "failureReason=processFailure")
		}).Should(Equal(2.0))
		clock.Step(121 * time.Second)
		c.recordRevision(c.delta, 1152)
		c.endJob(c.waitForJob("3"), batchv1.JobComplete, "CompletionsReached")
		c.waitForSnapshotTask()
	})

	It("compacts nothing while the recorded snapshots are in the previous store", func() {
		c := newCluster()
		c.recordStore("S3", "test-bucket", c.etcd.Namespace+"/test")
		c.recordStoreOnLease(c.full, `S3 container "old-bucket" prefix "old"`)
		c.recordRevision(c.delta, 1200)
		Consistently(c.jobNames).Should(BeEmpty())
		c.recordStoreOnLease(c.full, fmt.Sprintf("S3 container %q prefix %q", "test-bucket", c.etcd.Namespace+"/test"))
		c.recordRevision(c.delta, 1201)
		c.waitForJob("1")
	})

	It("compacts nothing after the cluster has lost acknowledged writes, until a user accepts that", func() {
		c := newCluster()
		c.record(`"evidence":{"highestRevision":1200,"rolledBack":{"revision":1100,"at":"2026-01-01T00:00:00Z"}}`)
		c.recordRevision(c.delta, 1200)
		Consistently(c.jobNames).Should(BeEmpty())
		c.record(`"evidence":{"highestRevision":1100,"acceptedRevision":1100}`)
		job := c.waitForJob("1")

		By("losing acknowledged writes while the Job runs")
		c.record(`"evidence":{"highestRevision":1200,"rolledBack":{"revision":1100,"at":"2026-01-02T00:00:00Z"}}`)
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			g.Expect(job.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
	})

	It("uses the thresholds of the Etcd, and needs no Secret", func() {
		c := newCluster(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store.SecretRef = nil
			etcd.Spec.Backup.Store.Prefix = "elsewhere"
			etcd.Spec.Backup.SnapshotCompaction = &druidv1alpha1.SnapshotCompactionSpec{EventsThreshold: new(int64(10))}
		})
		c.recordRevision(c.delta, 1010)
		for _, variable := range c.waitForJob("1").Spec.Template.Spec.Containers[0].Env {
			Expect(variable.Name).NotTo(ContainSubstring("CREDENTIALS"))
		}
	})

	It("compacts a Local store on the node of the leader, and waits while there is no leader", func() {
		c := newCluster(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 3
			etcd.Spec.Backup.Store.Provider, etcd.Spec.Backup.Store.SecretRef = new(druidv1alpha1.StorageProvider("Local")), nil
		})
		c.recordRevision(c.delta, 1100)
		Eventually(func(g Gomega) {
			events := &corev1.EventList{}
			g.Expect(env.Client.List(ctx, events, client.InNamespace(c.etcd.Namespace))).To(Succeed())
			g.Expect(events.Items).To(ContainElement(And(HaveField("Reason", "CompactionPending"), HaveField("Message", ContainSubstring("a member that leads")))))
		}).Should(Succeed())
		Expect(c.jobNames()).To(BeEmpty())

		for id := range uint64(3) {
			c.createMember(id)
		}
		members.Stop(1)
		members.Start(1)
		Expect(members.Leader()).To(BeEquivalentTo(2))
		c.recordRevision(c.delta, 1101)
		Expect(c.waitForJob("1").Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms).To(ConsistOf(
			HaveField("MatchFields", ConsistOf(corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: "In", Values: []string{"node-1"}})),
		))
	})

	DescribeTable("reports the cause of a failed Job in the condition and the metrics",
		func(pod *corev1.PodStatus, jobReason, reason, metric string) {
			c := newCluster()
			c.recordRevision(c.delta, 1200)
			job := c.waitForJob("1")
			if pod != nil {
				c.createJobPod(job, *pod)
			}
			c.endJob(job, batchv1.JobFailed, jobReason)
			Eventually(func(g Gomega) {
				status, is, message := c.condition(g)
				g.Expect(status).To(Equal("False"))
				g.Expect(is).To(Equal(reason))
				g.Expect(message).To(HavePrefix("Attempt 1 of Job test-compactor has failed: "))
				g.Expect(c.metric("etcddruid_compaction_jobs_total", "succeeded=false", "failureReason="+metric)).To(Equal(1.0))
				g.Expect(c.metric("etcddruid_compaction_job_duration_seconds", "succeeded=false", "failureReason="+metric)).To(Equal(1.0))
			}).Should(Succeed())
		},
		Entry("DeadlineExceeded", nil, "DeadlineExceeded", "DeadlineExceeded", "deadlineExceeded"),
		Entry("PreemptionByScheduler", new(disrupted("PreemptionByScheduler")), "BackoffLimitExceeded", "PreemptionByScheduler", "preempted"),
		Entry("DeletionByTaintManager", new(disrupted("DeletionByTaintManager")), "BackoffLimitExceeded", "DeletionByTaintManager", "evicted"),
		Entry("EvictionByEvictionAPI", new(disrupted("EvictionByEvictionAPI")), "BackoffLimitExceeded", "EvictionByEvictionAPI", "evicted"),
		Entry("TerminationByKubelet", new(disrupted("TerminationByKubelet")), "BackoffLimitExceeded", "TerminationByKubelet", "evicted"),
		Entry("ProcessFailure", new(exited), "BackoffLimitExceeded", "ProcessFailure", "processFailure"),
		Entry("Unknown", nil, "BackoffLimitExceeded", "Unknown", "unknown"),
	)

	It("reports the cause of a terminated pod even if the pod no longer exists", func() {
		c := newCluster()
		c.recordRevision(c.delta, 1200)
		job := c.waitForJob("1")
		pod := c.createJobPod(job, disrupted("PreemptionByScheduler"))
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			g.Expect(job.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/disruption", "PreemptionByScheduler"))
		}).Should(Succeed())
		Expect(env.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		c.endJob(job, batchv1.JobFailed, "BackoffLimitExceeded")
		Eventually(func(g Gomega) {
			_, reason, _ := c.condition(g)
			g.Expect(reason).To(Equal("PreemptionByScheduler"))
		}).Should(Succeed())
	})

	It("retries a failed Job with a backoff, and requests a full snapshot after three attempts", func() {
		c := newCluster()
		c.recordRevision(c.delta, 1150)
		first := c.waitForJob("1")
		c.failJob(first)
		c.recordRevision(c.delta, 1151)
		Consistently(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(first), first)).To(Succeed())
		}).Should(Succeed(), "the backoff has not ended")

		clock.Step(61 * time.Second)
		c.recordRevision(c.delta, 1152)
		second := c.waitForJob("2")
		Expect(second.UID).NotTo(Equal(first.UID))
		c.failJob(second)
		clock.Step(121 * time.Second)
		c.recordRevision(c.delta, 1153)
		c.failJob(c.waitForJob("3"))
		c.recordRevision(c.delta, 1154)

		task := c.waitForSnapshotTask()
		Expect(task.Spec.EtcdName).To(HaveValue(Equal("test")))
		Expect(task.Spec.Config.OnDemandSnapshot.Type).To(BeEquivalentTo("full"))
		Expect(task.Spec.Config.OnDemandSnapshot.IsFinal).To(BeNil())
		Expect(c.metric("etcddruid_compaction_jobs_total", "succeeded=false", "failureReason=processFailure")).To(Equal(3.0))

		c.setTaskState(task, "Succeeded")
		Eventually(func(g Gomega) {
			status, reason, message := c.condition(g)
			g.Expect(status).To(Equal("True"))
			g.Expect(reason).To(Equal("FullSnapshotTakenSuccessfully"))
			g.Expect(message).To(ContainSubstring("test-compaction-1000"))
			g.Expect(c.metric("etcddruid_compaction_full_snapshot_triggered_total", "succeeded=true")).To(Equal(1.0))
		}).Should(Succeed())

		c.recordRevision(c.full, 1154)
		Eventually(func(g Gomega) {
			job := &batchv1.Job{}
			g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: c.etcd.Namespace, Name: "test-compactor"}, job)).To(Succeed())
			g.Expect(job.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed(), "the failed Job is no longer needed")
	})

	It("requests a full snapshot immediately if there are too many events, and reports its failure", func() {
		c := newCluster()
		c.recordRevision(c.delta, 1300)
		c.setTaskState(c.waitForSnapshotTask(), "Failed", druidv1alpha1.LastError{Code: "ERR_CREATE_SNAPSHOT", Description: "the store is full", ObservedAt: metav1.Now()})
		Eventually(func(g Gomega) {
			status, reason, message := c.condition(g)
			g.Expect(status).To(Equal("False"))
			g.Expect(reason).To(Equal("ErrorTriggeringFullSnapshot"))
			g.Expect(message).To(ContainSubstring("the store is full"))
			g.Expect(c.metric("etcddruid_compaction_full_snapshot_triggered_total", "succeeded=false")).To(Equal(1.0))
		}).Should(Succeed())
		Expect(c.jobNames()).To(BeEmpty())
	})

	It("requests a full snapshot after a Job that exceeded its deadline", func() {
		c := newCluster()
		c.recordRevision(c.delta, 1100)
		c.endJob(c.waitForJob("1"), batchv1.JobFailed, "DeadlineExceeded")
		c.waitForSnapshotTask()
	})

	It("starts nothing while the Etcd is suspended, and continues afterwards", func() {
		c := newCluster(fixture.WithAnnotation("druid.gardener.cloud/suspend-etcd-spec-reconcile", ""))
		c.recordRevision(c.delta, 1100)
		Consistently(c.jobNames).Should(BeEmpty())
		before := c.etcd.DeepCopy()
		c.etcd.Annotations = nil
		Expect(env.Client.Patch(ctx, c.etcd, client.MergeFrom(before))).To(Succeed())
		c.waitForJob("1")
	})

	It("runs a Job for a task, and keeps the Job until the task has ended", func() {
		c := newCluster()
		task := &druidv1alpha1.EtcdOpsTask{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.etcd.Namespace, Name: "compact"},
			Spec:       druidv1alpha1.EtcdOpsTaskSpec{EtcdName: new("test"), Config: druidv1alpha1.EtcdOpsTaskConfig{Compaction: &druidv1alpha1.CompactionConfig{}}},
		}
		Expect(env.Client.Create(ctx, task)).To(Succeed())
		Consistently(c.jobNames).Should(BeEmpty(), "it waits in the queue")
		c.setTaskState(task, "InProgress")
		job := c.waitForJob("1")
		Expect(job.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/task", string(task.UID)))

		c.endJob(job, batchv1.JobComplete, "CompletionsReached")
		Eventually(func(g Gomega) {
			_, reason, _ := c.condition(g)
			g.Expect(reason).To(Equal("None"))
		}).Should(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			g.Expect(job.DeletionTimestamp).To(BeNil())
		}).Should(Succeed())
		c.setTaskState(task, "Succeeded")
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			g.Expect(job.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
	})

	It("deletes the Job if the store is removed from the spec, and the metrics with the Etcd", func() {
		c := newCluster()
		c.recordRevision(c.delta, 1100)
		job := c.waitForJob("1")
		Eventually(c.metrics).Should(ContainElements("etcddruid_compaction_jobs_current", "etcddruid_compaction_num_delta_events"))

		c.failJob(job)
		Eventually(c.metrics).Should(ContainElement("etcddruid_compaction_jobs_total"))
		Expect(env.Client.Delete(ctx, c.etcd)).To(Succeed())
		Eventually(c.metrics).Should(BeEmpty())

		other := newCluster()
		other.recordRevision(other.delta, 1100)
		job = other.waitForJob("1")
		before := other.etcd.DeepCopy()
		other.etcd.Spec.Backup.Store = nil
		Expect(env.Client.Patch(ctx, other.etcd, client.MergeFrom(before))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
			g.Expect(job.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		Eventually(other.metrics).Should(BeEmpty())
	})
})
