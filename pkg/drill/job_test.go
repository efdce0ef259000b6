// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drill_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/drill"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// drillJob is the Job of a drill that compared revision 40.
func drillJob(conditions ...batchv1.JobCondition) *batchv1.Job {
	annotations := drill.Live{Revision: 40, Hash: 4000000000, Snapshot: "Incr-31-40", DataAge: 90 * time.Second, MissingRevisions: 7}.Annotations()
	annotations["etcd-druid.extensions.gardener.cloud/task"] = "task"
	annotations["etcd-druid.extensions.gardener.cloud/attempt"] = "2"
	annotations["etcd-druid.extensions.gardener.cloud/store"] = store

	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "job", Annotations: annotations}, Status: batchv1.JobStatus{Conditions: conditions}}
}

func jobCondition(conditionType batchv1.JobConditionType, reason string) batchv1.JobCondition {
	return batchv1.JobCondition{Type: conditionType, Status: corev1.ConditionTrue, Reason: reason, Message: "the Job says", LastTransitionTime: metav1.NewTime(drillNow)}
}

// podOf is a pod of a Job, in which init containers have ended with these codes, and the last container with code.
func podOf(owner types.UID, age time.Duration, init map[string]int32, code int32) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "pod", CreationTimestamp: metav1.NewTime(drillNow.Add(-age)), OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: new(true)}},
	}}
	began := drillNow.Add(-time.Minute)
	for _, name := range []string{"fetch", "replay", "restore"} {
		exit, ended := init[name]
		if !ended {
			continue
		}
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exit, Message: name + " says", StartedAt: metav1.NewTime(began), FinishedAt: metav1.NewTime(began.Add(5 * time.Second)),
		}}})
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "inspect", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: "inspect says"}}}}

	return pod
}

// restoreFailed is a pod in which the sidecar could not restore, with the end of its log.
func restoreFailed(age time.Duration, log string) corev1.Pod {
	pod := podOf("job", age, map[string]int32{"fetch": 0, "replay": 0, "restore": 1}, 0)
	if log != "" {
		pod.Status.InitContainerStatuses[2].State.Terminated.Message = log
	}

	return pod
}

var all = map[string]int32{"fetch": 0, "replay": 0, "restore": 0}

var _ = Describe("JobFor", func() {
	It("has no result while the Job runs", func() {
		job := drill.JobFor(drillJob(), nil)
		Expect(job.Result).To(BeNil())
		Expect(job.Proof).To(BeNil())
		Expect(job.Task).To(Equal(types.UID("task")))
		Expect(job.Attempt).To(Equal(2))
	})

	It("has a proof if all containers have succeeded", func() {
		job := drill.JobFor(drillJob(jobCondition(batchv1.JobComplete, "")), []corev1.Pod{podOf("job", 0, all, 0), podOf("another", 0, all, 12)})
		Expect(job.Result).To(HaveValue(And(
			HaveField("Reason", "RestoreProven"), HaveField("EndedAt", drillNow), HaveField("Job", types.UID("job")), HaveField("Task", types.UID("task")),
		)))
		Expect(job.Proof).To(HaveValue(Equal(state.DrillProof{
			ProvenAt: drillNow, Store: store, Snapshot: "Incr-31-40", Revision: 40, Hash: 4000000000,
			RestoreTime: state.Duration(10 * time.Second), DataAge: state.Duration(90 * time.Second), MissingRevisions: 7,
		})))
	})

	It("knows a drill that follows a fault", func() {
		job := drillJob(jobCondition(batchv1.JobComplete, ""))
		job.Annotations["etcd-druid.extensions.gardener.cloud/failed-drill"] = "task-before"
		Expect(drill.JobFor(job, nil).Result.Repeats).To(BeTrue())
	})

	DescribeTable("returns why the Job has failed",
		func(reason string, pods []corev1.Pod, expected, message string) {
			job := drill.JobFor(drillJob(jobCondition(batchv1.JobFailed, reason)), pods)
			Expect(job.Proof).To(BeNil())
			Expect(job.Result.Reason).To(Equal(expected))
			Expect(job.Result.Message).To(And(ContainSubstring(message), Not(ContainSubstring("publish-timeout"))))
		},
		Entry("a damaged snapshot", "PodFailurePolicy", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 6}, 0)}, "SnapshotDamaged", "replay says"),
		Entry("a database that etcd cannot read", "PodFailurePolicy", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 4}, 0)}, "SnapshotDamaged", "replay says"),
		Entry("missing events", "BackoffLimitExceeded", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 7}, 0)}, "EventsMissing", "replay says"),
		Entry("overlapping delta snapshots", "PodFailurePolicy", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 8}, 0)}, "DeltaSnapshotsOverlap", "replay says"),
		Entry("different histories", "PodFailurePolicy", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 9}, 0)}, "HistoriesDiffer", "replay says"),
		Entry("another hash", "PodFailurePolicy", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 11}, 0)}, "HashDiffers", "replay says"),
		Entry("no full snapshot", "BackoffLimitExceeded", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 14}, 0)}, "NoSnapshot", "replay says"),
		Entry("a restore that fails in two pods", "BackoffLimitExceeded", []corev1.Pod{restoreFailed(0, ""), restoreFailed(time.Minute, "")}, "RestoreFailed", "restore says"),
		Entry("a restore that fails in two pods, with time limits before the error in the log", "BackoffLimitExceeded",
			[]corev1.Pod{restoreFailed(0, "\"publish-timeout\":\"7s\"\ntime=\"now\" level=fatal msg=\"mismatched event revision\""), restoreFailed(time.Minute, "")}, "RestoreFailed", "mismatched event revision"),
		Entry("a restore that fails in one pod proves nothing", "BackoffLimitExceeded", []corev1.Pod{restoreFailed(0, "")}, "DrillIncomplete", "restore says"),
		Entry("a full disk of the nodes proves nothing", "BackoffLimitExceeded",
			[]corev1.Pod{restoreFailed(0, "write: no space left on device"), restoreFailed(time.Minute, "write: no space left on device")}, "DrillIncomplete", "no space left"),
		Entry("timeouts prove nothing", "BackoffLimitExceeded",
			[]corev1.Pod{restoreFailed(0, "level=fatal msg=\"context deadline exceeded\""), restoreFailed(time.Minute, "")}, "DrillIncomplete", "deadline exceeded"),
		Entry("a restore without a database", "BackoffLimitExceeded", []corev1.Pod{podOf("job", 0, all, 3)}, "RestoreFailed", "inspect says"),
		Entry("a lost event", "PodFailurePolicy", []corev1.Pod{podOf("job", 0, all, 12)}, "RestoreDiffers", "inspect says"),
		Entry("the newest pod counts", "BackoffLimitExceeded", []corev1.Pod{podOf("job", time.Minute, map[string]int32{"fetch": 1}, 0), podOf("job", 0, all, 12)}, "RestoreDiffers", "inspect says"),

		Entry("a store that does not respond proves nothing", "BackoffLimitExceeded", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 1}, 0)}, "DrillIncomplete", "Container fetch of pod pod ended with code 1: fetch says"),
		Entry("a revision that is not comparable proves nothing", "BackoffLimitExceeded", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 10}, 0)}, "DrillIncomplete", "replay says"),
		Entry("a restore that was killed proves nothing", "BackoffLimitExceeded", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 0, "restore": 137}, 0)}, "DrillIncomplete", "restore says"),
		Entry("a deadline proves nothing", "DeadlineExceeded", []corev1.Pod{podOf("job", 0, map[string]int32{"fetch": 0, "replay": 6}, 0)}, "DrillIncomplete", "longer than its deadline"),
		Entry("a deleted pod proves nothing", "BackoffLimitExceeded", []corev1.Pod{podOf("another", 0, all, 12)}, "DrillIncomplete", "the Job says"),
	)
})
