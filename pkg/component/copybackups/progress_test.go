// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
)

var _ = Describe("Conditions", func() {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC))
	}
	job := func(failed int32, conditions ...batchv1.JobCondition) *batchv1.Job {
		return &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: new(int32(6))}, Status: batchv1.JobStatus{Failed: failed, Conditions: conditions}}
	}
	pod := func(phase corev1.PodPhase, change ...func(*corev1.Pod)) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "main-worker-x", CreationTimestamp: at(0)}, Status: corev1.PodStatus{Phase: phase}}
		for _, apply := range change {
			apply(&pod)
		}

		return pod
	}
	ended := func(minute int, message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Name = "main-worker-failed"
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: "Error", Message: message, FinishedAt: at(minute),
			}}}}
		}
	}

	DescribeTable("report what the copy does",
		func(obs copybackups.Observation, message string) {
			if obs.Task == nil {
				obs.Task = task()
			}
			Expect(copybackups.Conditions(obs)).To(ConsistOf(druidv1alpha1.Condition{Type: "Progressing", Status: "True", Reason: "Copying", Message: message}))
			Expect(copybackups.IsFinished(obs.Job)).To(BeFalse())
		},
		Entry("without a pod", copybackups.Observation{Job: job(0)}, "Attempt 1 of 7 is about to start"),
		Entry("while its pod starts", copybackups.Observation{Job: job(0), Pods: []corev1.Pod{pod(corev1.PodPending)}}, "Attempt 1 of 7 waits for pod main-worker-x to start"),
		Entry("while its pod cannot be scheduled", copybackups.Observation{Job: job(0), Pods: []corev1.Pod{pod(corev1.PodPending, func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}
		})}}, "Attempt 1 of 7 waits for pod main-worker-x to start: 0/3 nodes are available"),
		Entry("while its image cannot be pulled", copybackups.Observation{Job: job(0), Pods: []corev1.Pod{pod(corev1.PodPending, func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
		})}}, "Attempt 1 of 7 waits for pod main-worker-x to start: ErrImagePull: not found"),
		Entry("while its pod runs", copybackups.Observation{Job: job(0), Pods: []corev1.Pod{pod(corev1.PodRunning)}}, "Attempt 1 of 7 runs since 2026-01-01T12:00:00Z"),
		Entry("while it may wait for the final snapshot", copybackups.Observation{Task: task(withEverything), Job: job(0), Pods: []corev1.Pod{pod(corev1.PodRunning)}},
			"Attempt 1 of 7 runs since 2026-01-01T12:00:00Z; it copies when the newest full snapshot in the source is a final one, or at 2026-01-01T13:00:00Z"),
		Entry("after attempts that failed, with the end of the newest log", copybackups.Observation{Job: job(2), Pods: []corev1.Pod{
			pod(corev1.PodFailed, ended(1, "old")), pod(corev1.PodFailed, ended(2, "level=info\nlevel=fatal msg=\"403\"\n")), pod(corev1.PodRunning),
		}}, "Attempt 3 of 7 runs since 2026-01-01T12:00:00Z; pod main-worker-failed ended at 2026-01-01T12:02:00Z with code 1: level=fatal msg=\"403\""),
		Entry("after an attempt that failed without a log", copybackups.Observation{Job: job(1), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(1, ""))}},
			"Attempt 2 of 7 is about to start; pod main-worker-failed ended at 2026-01-01T12:01:00Z with code 1: Error"),
	)

	It("report success", func() {
		obs := copybackups.Observation{Task: task(), Job: job(1, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, Reason: "CompletionsReached", LastTransitionTime: at(5)})}
		Expect(copybackups.IsFinished(obs.Job)).To(BeTrue())
		Expect(copybackups.Conditions(obs)).To(ConsistOf(
			druidv1alpha1.Condition{Type: "Succeeded", Status: "True", Reason: "CompletionsReached", Message: "What the source held and the target lacked was copied; the log of the Job says what that was, after 1 failed attempts"},
			druidv1alpha1.Condition{Type: "Progressing", Status: "False", Reason: "Over", Message: "The copy has ended at 2026-01-01T12:05:00Z"},
		))
	})

	DescribeTable("report that the wait for a final snapshot may have timed out",
		func(minutes int, spec func(*druidv1alpha1.EtcdCopyBackupsTask), message string) {
			copied := pod(corev1.PodSucceeded, func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(0), FinishedAt: at(minutes)}}}}
			})
			obs := copybackups.Observation{Task: task(spec), Pods: []corev1.Pod{copied},
				Job: job(0, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: at(70)})}
			Expect(copybackups.Conditions(obs)).To(ContainElement(HaveField("Message", message)))
		},
		Entry("if its pod ran for as long", 60, withEverything, "What the source held and the target lacked was copied; the log of the Job says what that was; pod main-worker-x ran for longer than the 1h0m0s that it was to wait for a final snapshot, and may have copied without one"),
		Entry("not if it took less time", 59, withEverything, "What the source held and the target lacked was copied; the log of the Job says what that was"),
		Entry("not if it does not wait", 60, func(*druidv1alpha1.EtcdCopyBackupsTask) {}, "What the source held and the target lacked was copied; the log of the Job says what that was"),
	)

	It("report the cause of the final failure", func() {
		obs := copybackups.Observation{Task: task(), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(4, "no such bucket"))},
			Job: job(7, batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit", LastTransitionTime: at(5)})}
		Expect(copybackups.IsFinished(obs.Job)).To(BeTrue())
		Expect(copybackups.Conditions(obs)).To(ContainElement(
			druidv1alpha1.Condition{Type: "Failed", Status: "True", Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit; pod main-worker-failed ended at 2026-01-01T12:04:00Z with code 1: no such bucket. Create another task to retry; snapshots that were copied are not copied again"},
		))
	})

	It("ignore conditions of the Job that are not true", func() {
		obs := copybackups.Observation{Task: task(), Job: job(0, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionFalse})}
		Expect(copybackups.IsFinished(obs.Job)).To(BeFalse())
		Expect(copybackups.Conditions(obs)).To(HaveLen(1))
	})

	It("truncate long messages", func() {
		obs := copybackups.Observation{Task: task(), Job: job(1), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(1, strings.Repeat("x", 4000)))}}
		Expect(len(copybackups.Conditions(obs)[0].Message)).To(BeNumerically("<", 500))
	})
})
