// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var compactionNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// compactionWith has a store with 150 events since its full snapshot. A Job starts at 100 events, a full snapshot at 300.
func compactionWith(changes ...func(*compaction.Input)) compaction.Input {
	c := compaction.Input{
		HasStore:              true,
		FullSnapshotLease:     etcdcluster.Lease{Exists: true, Holder: "1000"},
		DeltaSnapshotLease:    etcdcluster.Lease{Exists: true, Holder: "1150"},
		EventsThreshold:       100,
		FullSnapshotThreshold: 300,
	}
	for _, change := range changes {
		change(&c)
	}

	return c
}

func delta(holder string) func(*compaction.Input) {
	return func(c *compaction.Input) { c.DeltaSnapshotLease.Holder = holder }
}

func compactionJob(change func(*compaction.Job)) func(*compaction.Input) {
	return func(c *compaction.Input) {
		c.Job = &compaction.Job{Attempt: 1}
		change(c.Job)
	}
}

func jobRuns(*compaction.Job) {}

// jobEnded is a Job that ended ten seconds ago and whose outcome is recorded.
func jobEnded(outcome string, attempt int) func(*compaction.Input) {
	return compactionJob(func(j *compaction.Job) {
		j.Outcome, j.Attempt, j.Recorded, j.EndTime = outcome, attempt, true, compactionNow.Add(-10*time.Second)
	})
}

func ofTask(c *compaction.Input) { c.Job.Task = "task-1" }

func taskRequested(c *compaction.Input) { c.Task = "task-1" }

func snapshotRequested(base string, ended, recorded bool) func(*compaction.Input) {
	return func(c *compaction.Input) {
		c.Snapshot = &compaction.Snapshot{BaseRevision: base, Ended: ended, Recorded: recorded}
	}
}

// elsewhere has a Lease that records a full snapshot of the previous store.
func elsewhere(c *compaction.Input) {
	c.StoreLocation, c.DeltaSnapshotLease.Store = "the new store", "the new store"
	c.FullSnapshotLease.Store = "the old store"
}

// changedBack has Leases with snapshots from before a change of the endpoint and back.
func changedBack(c *compaction.Input) { c.AwaitsSnapshot = true }

func suspended(c *compaction.Input)  { c.Suspended = true }
func hibernated(c *compaction.Input) { c.Hibernated = true }
func rolledBack(c *compaction.Input) { c.RolledBack = true }
func storeless(c *compaction.Input)  { c.HasStore = false }

// lostUpTo is an input with snapshots that may contain lost writes up to the revision.
func lostUpTo(revision int64) func(*compaction.Input) {
	return func(c *compaction.Input) { c.LostRevision = revision }
}

func switchedOff(c *compaction.Input) {
	c.EventsThreshold, c.FullSnapshotThreshold = 0, 0
}

var _ = Describe("Compaction", func() {
	type changes = []func(*compaction.Input)

	DescribeTable("Decide",
		func(given changes, action string, attempt int, requeueAfter time.Duration) {
			decision := compactionWith(given...).Decide(compactionNow)
			Expect(string(decision.Action)).To(Equal(action), decision.Reason)
			Expect(decision.Attempt).To(Equal(attempt))
			Expect(decision.RequeueAfter).To(Equal(requeueAfter))
			Expect(decision.Reason).NotTo(BeEmpty())
		},
		Entry("runs a Job at the threshold", changes{delta("1100")}, "RunJob", 1, time.Duration(0)),
		Entry("runs none below the threshold", changes{delta("1099")}, "None", 0, time.Duration(0)),
		Entry("runs none before there is a delta snapshot", changes{delta("")}, "None", 0, time.Duration(0)),
		Entry("runs none before there is a full snapshot", changes{func(c *compaction.Input) { c.FullSnapshotLease.Holder = "" }}, "None", 0, time.Duration(0)),
		Entry("runs none if the latest delta snapshot is older than the full one", changes{delta("10")}, "None", 0, time.Duration(0)),
		Entry("runs none without a task if compaction is disabled", changes{switchedOff}, "None", 0, time.Duration(0)),
		Entry("runs none if the known snapshots are in the previous store", changes{elsewhere}, "None", 0, time.Duration(0)),
		Entry("runs none if the snapshots may have a gap", changes{changedBack}, "None", 0, time.Duration(0)),
		Entry("takes no full snapshot if the known snapshots are in the previous store", changes{delta("1300"), elsewhere}, "None", 0, time.Duration(0)),
		Entry("runs none while the Etcd is suspended", changes{suspended}, "None", 0, time.Duration(0)),
		Entry("runs none after the cluster has lost acknowledged writes", changes{rolledBack}, "None", 0, time.Duration(0)),
		Entry("runs none for a task after the cluster has lost acknowledged writes", changes{taskRequested, rolledBack}, "None", 0, time.Duration(0)),
		Entry("deletes a running Job after the cluster has lost acknowledged writes", changes{compactionJob(jobRuns), rolledBack}, "DeleteJob", 0, time.Duration(0)),
		Entry("runs none while snapshots may contain lost writes", changes{lostUpTo(2000), delta("1300")}, "None", 0, time.Duration(0)),
		Entry("takes a full snapshot as soon as it replaces snapshots with lost writes", changes{lostUpTo(1098), delta("1099")}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("takes that snapshot also if compaction is disabled", changes{lostUpTo(1098), delta("1099"), switchedOff}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("runs a Job when a full snapshot has replaced snapshots with lost writes", changes{lostUpTo(999)}, "RunJob", 1, time.Duration(0)),
		Entry("requests that snapshot once", changes{lostUpTo(1098), delta("1099"), snapshotRequested("1000", true, true)}, "None", 0, time.Duration(0)),
		Entry("takes no such snapshot while the cluster hibernates", changes{lostUpTo(1098), delta("1099"), hibernated}, "None", 0, time.Duration(0)),
		Entry("runs none for a task while snapshots may contain lost writes", changes{lostUpTo(2000), delta("1099"), taskRequested}, "None", 0, time.Duration(0)),
		Entry("deletes a running Job while snapshots may contain lost writes", changes{lostUpTo(2000), compactionJob(jobRuns)}, "DeleteJob", 0, time.Duration(0)),
		Entry("keeps the result of a task while snapshots may contain lost writes", changes{lostUpTo(2000), delta("1099"), jobEnded("None", 1), ofTask, taskRequested}, "None", 0, time.Duration(0)),
		Entry("runs none while the cluster hibernates", changes{hibernated}, "None", 0, time.Duration(0)),
		Entry("runs none without a store", changes{storeless}, "None", 0, time.Duration(0)),
		Entry("takes a full snapshot at the threshold for full snapshots", changes{delta("1300")}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("takes no full snapshot while the cluster hibernates", changes{delta("1300"), hibernated}, "None", 0, time.Duration(0)),
		Entry("waits for a requested full snapshot", changes{delta("1300"), snapshotRequested("1000", false, false)}, "None", 0, time.Duration(0)),
		Entry("waits for a requested full snapshot also after another one was taken", changes{delta("1300"), snapshotRequested("900", false, false)}, "None", 0, time.Duration(0)),
		Entry("does not repeat a failed full snapshot while its task exists", changes{delta("1300"), snapshotRequested("1000", true, true)}, "None", 0, time.Duration(0)),
		Entry("takes another full snapshot after a newer one exists", changes{delta("1300"), snapshotRequested("900", true, true)}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("records the result of a full snapshot", changes{snapshotRequested("1000", true, false)}, "RecordSnapshot", 0, time.Duration(0)),
		Entry("records the result of a full snapshot while the Etcd is suspended", changes{snapshotRequested("1000", true, false), suspended}, "RecordSnapshot", 0, time.Duration(0)),
		Entry("runs no Job after a full snapshot was requested for the same base", changes{snapshotRequested("1000", true, true)}, "None", 0, time.Duration(0)),

		Entry("continues a running Job", changes{compactionJob(jobRuns)}, "None", 0, time.Duration(0)),
		Entry("continues a running Job while the Etcd is suspended", changes{compactionJob(jobRuns), suspended}, "None", 0, time.Duration(0)),
		Entry("deletes a running Job after the store was removed from the spec", changes{compactionJob(jobRuns), storeless}, "DeleteJob", 0, time.Duration(0)),
		Entry("waits for the deletion of a Job", changes{compactionJob(func(j *compaction.Job) { j.Deleting = true })}, "None", 0, time.Duration(0)),
		Entry("records why the pod is being disrupted", changes{compactionJob(func(j *compaction.Job) { j.Disruption = "EvictionByEvictionAPI" })}, "NoteDisruption", 0, time.Duration(0)),
		Entry("records the disruption once", changes{compactionJob(func(j *compaction.Job) { j.Disruption, j.DisruptionRecorded = "EvictionByEvictionAPI", true })}, "None", 0, time.Duration(0)),
		Entry("records the outcome of a Job", changes{compactionJob(func(j *compaction.Job) { j.Outcome = "None" })}, "RecordJob", 0, time.Duration(0)),
		Entry("records the outcome of a Job while the Etcd is suspended", changes{compactionJob(func(j *compaction.Job) { j.Outcome = "None" }), suspended}, "RecordJob", 0, time.Duration(0)),
		Entry("deletes a Job that has succeeded", changes{jobEnded("None", 1)}, "DeleteJob", 0, time.Duration(0)),
		Entry("waits a minute before it repeats a failed Job", changes{jobEnded("ProcessFailure", 1)}, "None", 0, 50*time.Second),
		Entry("waits twice as long after the second attempt", changes{jobEnded("Unknown", 2)}, "None", 0, 110*time.Second),
		Entry("repeats a failed Job after the pause", changes{jobEnded("EvictionByEvictionAPI", 1), func(c *compaction.Input) { c.Job.EndTime = compactionNow.Add(-time.Minute) }}, "RunJob", 2, time.Duration(0)),
		Entry("takes a full snapshot after the third attempt", changes{jobEnded("ProcessFailure", 3)}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("takes a full snapshot after a Job exceeded its deadline", changes{jobEnded("DeadlineExceeded", 1)}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("deletes a failed Job after a newer full snapshot was taken", changes{jobEnded("ProcessFailure", 1), delta("1001")}, "DeleteJob", 0, time.Duration(0)),

		Entry("runs a Job for a task if compaction is disabled", changes{taskRequested, switchedOff}, "RunJob", 1, time.Duration(0)),
		Entry("runs a Job for a task while the cluster hibernates", changes{taskRequested, hibernated}, "RunJob", 1, time.Duration(0)),
		Entry("runs none for a task while the Etcd is suspended", changes{taskRequested, suspended}, "None", 0, time.Duration(0)),
		Entry("waits for a running Job before it runs the Job of a task", changes{compactionJob(jobRuns), taskRequested}, "None", 0, time.Duration(0)),
		Entry("replaces an older Job with the Job of a task", changes{jobEnded("None", 1), taskRequested}, "RunJob", 1, time.Duration(0)),
		Entry("keeps the Job of a task until the task ends", changes{jobEnded("None", 1), ofTask, taskRequested}, "None", 0, time.Duration(0)),
		Entry("deletes the Job of a task that ended", changes{jobEnded("None", 1), ofTask}, "DeleteJob", 0, time.Duration(0)),
		Entry("deletes the failed Job of a task that ended, and takes no full snapshot instead", changes{jobEnded("DeadlineExceeded", 1), ofTask}, "DeleteJob", 0, time.Duration(0)),
		Entry("deletes a running Job whose task ended", changes{compactionJob(jobRuns), ofTask}, "DeleteJob", 0, time.Duration(0)),
		Entry("waits before it repeats the Job of a task", changes{jobEnded("ProcessFailure", 2), ofTask, taskRequested}, "None", 0, 110*time.Second),
		Entry("does not repeat the Job of a task after the third attempt", changes{jobEnded("ProcessFailure", 3), ofTask, taskRequested}, "None", 0, time.Duration(0)),
	)

	DescribeTable("HasNoResult",
		func(lacks bool, base string, given ...func(*compaction.Input)) {
			c := compactionWith(append(changes{compactionJob(func(j *compaction.Job) { j.Outcome, j.BaseRevision = "None", base })}, given...)...)
			Expect(c.HasNoResult()).To(Equal(lacks))
		},
		Entry("is true if the latest full snapshot did not change", true, "1000"),
		Entry("is false if a newer full snapshot exists", false, "900"),
		Entry("is false without events since the full snapshot", false, "1000", delta("1000")),
		Entry("is false without a known base revision", false, ""),
		Entry("is false for a running Job", false, "1000", func(c *compaction.Input) { c.Job.Outcome = "" }),
		Entry("is false for a failed Job", false, "1000", func(c *compaction.Input) { c.Job.Outcome = "DeadlineExceeded" }),
		Entry("is false after the outcome was recorded", false, "1000", func(c *compaction.Input) { c.Job.Recorded = true }),
		Entry("is false if the known snapshots are in the previous store", false, "1000", elsewhere),
		Entry("is false without a Job", false, "1000", func(c *compaction.Input) { c.Job = nil }),
	)

	It("should mark a Job without a result as failed, and repeat it", func() {
		c := compactionWith(compactionJob(func(j *compaction.Job) {
			j.Outcome, j.BaseRevision, j.EndTime = "None", "1000", compactionNow.Add(-10*time.Second)
		}))
		c.MarkFailedWithoutResult()
		Expect(c.Job.Outcome).To(Equal("ProcessFailure"))
		Expect(c.Job.Message).To(Equal("Attempt 1 of the Job has compacted nothing: it ended without an error, and the newest full snapshot is the one with revision 1000 as before, with 150 events since; the log of its pod says why"))
		Expect(c.Decide(compactionNow).Action).To(BeEquivalentTo("RecordJob"))
		c.Job.Recorded = true
		Expect(c.Decide(compactionNow).RequeueAfter).To(Equal(50 * time.Second))
	})

	Describe("JobFor", func() {
		job := func(conditions ...batchv1.JobCondition) *batchv1.Job {
			return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "test-compactor", UID: "job", Annotations: map[string]string{}}, Status: batchv1.JobStatus{Conditions: conditions}}
		}
		failed := func(reason string) batchv1.JobCondition {
			return batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(compactionNow)}
		}
		pod := func(status corev1.PodStatus) corev1.Pod {
			return corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "test-compactor-x", OwnerReferences: []metav1.OwnerReference{{UID: "job", Controller: new(true)}}},
				Status:     status,
			}
		}
		disrupted := func(reason string) corev1.PodStatus {
			return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}}
		}
		exited := func(message string) corev1.PodStatus {
			return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}}}}}
		}

		DescribeTable("should return the outcome of the Job",
			func(job *batchv1.Job, pods []corev1.Pod, outcome, message string) {
				obs := compaction.JobFor(job, pods)
				Expect(obs.Outcome).To(Equal(outcome))
				Expect(obs.Message).To(ContainSubstring(message))
				if outcome != "" {
					Expect(obs.EndTime).To(Equal(compactionNow))
				}
			},
			Entry("none while it runs", job(), nil, "", ""),
			Entry("success", job(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(compactionNow)}), nil, "None", "Job test-compactor has compacted"),
			Entry("an exceeded deadline", job(failed("DeadlineExceeded")), []corev1.Pod{pod(disrupted("TerminationByKubelet"))}, "DeadlineExceeded", "activeDeadlineDuration"),
			Entry("preemption", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(disrupted("PreemptionByScheduler"))}, "PreemptionByScheduler", "ended from outside"),
			Entry("deletion by the taint manager", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(disrupted("DeletionByTaintManager"))}, "DeletionByTaintManager", ""),
			Entry("eviction", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(disrupted("EvictionByEvictionAPI"))}, "EvictionByEvictionAPI", ""),
			Entry("termination by the kubelet", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(disrupted("TerminationByKubelet"))}, "TerminationByKubelet", ""),
			Entry("a failed process", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(exited("no base\n  snapshot"))}, "ProcessFailure", "code 1: no base snapshot"),
			Entry("a failed process without a message", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(exited(""))}, "ProcessFailure", "no message"),
			Entry("unknown without a pod", job(failed("BackoffLimitExceeded")), nil, "Unknown", "contains no reason"),
		)

		It("should use the recorded disruption after the pod was deleted", func() {
			ended := job(failed("BackoffLimitExceeded"))
			ended.Annotations["etcd-druid.extensions.gardener.cloud/disruption"] = "PreemptionByScheduler"
			Expect(compaction.JobFor(ended, nil).Outcome).To(Equal("PreemptionByScheduler"))
		})

		It("should ignore the pods of an earlier Job", func() {
			other := pod(disrupted("PreemptionByScheduler"))
			other.OwnerReferences[0].UID = "other"
			Expect(compaction.JobFor(job(failed("BackoffLimitExceeded")), []corev1.Pod{other}).Outcome).To(Equal("Unknown"))
		})

		It("should shorten the termination message of a container", func() {
			obs := compaction.JobFor(job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(exited(strings.Repeat("x", 4000) + "the end"))})
			Expect(obs.Message).To(HaveSuffix("the end"))
			Expect(len(obs.Message)).To(BeNumerically("<", 600))
		})

		It("should use the recorded outcome of a Job without a result", func() {
			ended := job(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(compactionNow)})
			ended.Annotations["etcd-druid.extensions.gardener.cloud/recorded"] = "ProcessFailure"
			obs := compaction.JobFor(ended, nil)
			Expect(obs.Outcome).To(Equal("ProcessFailure"))
			Expect(obs.IsLast()).To(BeFalse())
		})

		It("should read the attempt, the task, the base revision and the recorded outcome", func() {
			annotated := job()
			annotated.Annotations = map[string]string{
				"etcd-druid.extensions.gardener.cloud/attempt":       "2",
				"etcd-druid.extensions.gardener.cloud/task":          "1234",
				"etcd-druid.extensions.gardener.cloud/recorded":      "None",
				"etcd-druid.extensions.gardener.cloud/base-revision": "1000",
			}
			obs := compaction.JobFor(annotated, nil)
			Expect(obs.Attempt).To(Equal(2))
			Expect(string(obs.Task)).To(Equal("1234"))
			Expect(obs.Recorded).To(BeTrue())
			Expect(obs.BaseRevision).To(Equal("1000"))
		})
	})
})
