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

// compactionWith is a store with 150 events since its full snapshot, of which 100 are enough for a Job and 300 too many.
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

// jobEnded is a Job that ended ten seconds ago, as is recorded.
func jobEnded(outcome string, attempt int) func(*compaction.Input) {
	return compactionJob(func(j *compaction.Job) {
		j.Outcome, j.Attempt, j.Recorded, j.EndTime = outcome, attempt, true, compactionNow.Add(-10*time.Second)
	})
}

func ofTask(c *compaction.Input) { c.Job.Task = "task-1" }

func askedBy(c *compaction.Input) { c.Task = "task-1" }

func snapshotAsked(base string, ended, recorded bool) func(*compaction.Input) {
	return func(c *compaction.Input) {
		c.Snapshot = &compaction.Snapshot{BaseRevision: base, Ended: ended, Recorded: recorded}
	}
}

// elsewhere is a store that was left: a lease tells of it yet.
func elsewhere(c *compaction.Input) {
	c.StoreLocation, c.DeltaSnapshotLease.Store = "the new store", "the new store"
	c.FullSnapshotLease.Store = "the old store"
}

func suspended(c *compaction.Input)  { c.Suspended = true }
func hibernated(c *compaction.Input) { c.Hibernated = true }
func storeless(c *compaction.Input)  { c.HasStore = false }
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
		Entry("runs a Job from the threshold on", changes{delta("1100")}, "RunJob", 1, time.Duration(0)),
		Entry("runs none below the threshold", changes{delta("1099")}, "None", 0, time.Duration(0)),
		Entry("runs none before there is a delta snapshot", changes{delta("")}, "None", 0, time.Duration(0)),
		Entry("runs none before there is a full snapshot", changes{func(c *compaction.Input) { c.FullSnapshotLease.Holder = "" }}, "None", 0, time.Duration(0)),
		Entry("runs none where the newest delta snapshot is older than the full one", changes{delta("10")}, "None", 0, time.Duration(0)),
		Entry("runs none by itself where compaction is switched off", changes{switchedOff}, "None", 0, time.Duration(0)),
		Entry("runs none where the snapshots that are known of lie in a store of before", changes{elsewhere}, "None", 0, time.Duration(0)),
		Entry("takes no full snapshot there either", changes{delta("1300"), elsewhere}, "None", 0, time.Duration(0)),
		Entry("runs none while the Etcd is suspended", changes{suspended}, "None", 0, time.Duration(0)),
		Entry("runs none while the cluster hibernates", changes{hibernated}, "None", 0, time.Duration(0)),
		Entry("runs none without a store", changes{storeless}, "None", 0, time.Duration(0)),
		Entry("takes a full snapshot where there are too many events", changes{delta("1300")}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("takes none while the cluster hibernates", changes{delta("1300"), hibernated}, "None", 0, time.Duration(0)),
		Entry("takes one snapshot, and waits for it", changes{delta("1300"), snapshotAsked("1000", false, false)}, "None", 0, time.Duration(0)),
		Entry("waits for the one that was asked for before another full snapshot was taken", changes{delta("1300"), snapshotAsked("900", false, false)}, "None", 0, time.Duration(0)),
		Entry("does not repeat one that has failed, while it is remembered", changes{delta("1300"), snapshotAsked("1000", true, true)}, "None", 0, time.Duration(0)),
		Entry("takes another when there is a newer full snapshot", changes{delta("1300"), snapshotAsked("900", true, true)}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("records how the snapshot ended", changes{snapshotAsked("1000", true, false)}, "RecordSnapshot", 0, time.Duration(0)),
		Entry("records how the snapshot ended also while the Etcd is suspended", changes{snapshotAsked("1000", true, false), suspended}, "RecordSnapshot", 0, time.Duration(0)),
		Entry("runs no Job right after a snapshot was asked for", changes{snapshotAsked("1000", true, true)}, "None", 0, time.Duration(0)),

		Entry("lets a Job run", changes{compactionJob(jobRuns)}, "None", 0, time.Duration(0)),
		Entry("lets a Job run while the Etcd is suspended", changes{compactionJob(jobRuns), suspended}, "None", 0, time.Duration(0)),
		Entry("ends a Job when the store is gone", changes{compactionJob(jobRuns), storeless}, "DeleteJob", 0, time.Duration(0)),
		Entry("waits for a Job to be gone", changes{compactionJob(func(j *compaction.Job) { j.Deleting = true })}, "None", 0, time.Duration(0)),
		Entry("notes why the pod is being ended", changes{compactionJob(func(j *compaction.Job) { j.Disruption = "EvictionByEvictionAPI" })}, "NoteDisruption", 0, time.Duration(0)),
		Entry("notes it once", changes{compactionJob(func(j *compaction.Job) { j.Disruption, j.DisruptionRecorded = "EvictionByEvictionAPI", true })}, "None", 0, time.Duration(0)),
		Entry("records how a Job ended", changes{compactionJob(func(j *compaction.Job) { j.Outcome = "None" })}, "RecordJob", 0, time.Duration(0)),
		Entry("records how a Job ended while the Etcd is suspended", changes{compactionJob(func(j *compaction.Job) { j.Outcome = "None" }), suspended}, "RecordJob", 0, time.Duration(0)),
		Entry("deletes a Job that has succeeded", changes{jobEnded("None", 1)}, "DeleteJob", 0, time.Duration(0)),
		Entry("repeats a Job that has failed not before a minute has passed", changes{jobEnded("ProcessFailure", 1)}, "None", 0, 50*time.Second),
		Entry("waits twice as long after the second", changes{jobEnded("Unknown", 2)}, "None", 0, 110*time.Second),
		Entry("repeats it then", changes{jobEnded("EvictionByEvictionAPI", 1), func(c *compaction.Input) { c.Job.EndTime = compactionNow.Add(-time.Minute) }}, "RunJob", 2, time.Duration(0)),
		Entry("takes a full snapshot after the third", changes{jobEnded("ProcessFailure", 3)}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("takes a full snapshot when a Job took too long", changes{jobEnded("DeadlineExceeded", 1)}, "TakeSnapshot", 0, time.Duration(0)),
		Entry("forgets a Job that has failed when a full snapshot was taken meanwhile", changes{jobEnded("ProcessFailure", 1), delta("1001")}, "DeleteJob", 0, time.Duration(0)),

		Entry("runs a Job for a task, whatever the thresholds say", changes{askedBy, switchedOff}, "RunJob", 1, time.Duration(0)),
		Entry("runs a Job for a task while the cluster hibernates", changes{askedBy, hibernated}, "RunJob", 1, time.Duration(0)),
		Entry("runs none for a task while the Etcd is suspended", changes{askedBy, suspended}, "None", 0, time.Duration(0)),
		Entry("waits with a task's Job for the one that runs", changes{compactionJob(jobRuns), askedBy}, "None", 0, time.Duration(0)),
		Entry("puts a task's Job in the place of an older one", changes{jobEnded("None", 1), askedBy}, "RunJob", 1, time.Duration(0)),
		Entry("keeps a task's Job until the task has ended", changes{jobEnded("None", 1), ofTask, askedBy}, "None", 0, time.Duration(0)),
		Entry("deletes it then", changes{jobEnded("None", 1), ofTask}, "DeleteJob", 0, time.Duration(0)),
		Entry("deletes a failed one then, and takes no full snapshot in its stead", changes{jobEnded("DeadlineExceeded", 1), ofTask}, "DeleteJob", 0, time.Duration(0)),
		Entry("ends a Job whose task has ended", changes{compactionJob(jobRuns), ofTask}, "DeleteJob", 0, time.Duration(0)),
		Entry("repeats a task's Job after a pause", changes{jobEnded("ProcessFailure", 2), ofTask, askedBy}, "None", 0, 110*time.Second),
		Entry("does not repeat a task's Job after the third", changes{jobEnded("ProcessFailure", 3), ofTask, askedBy}, "None", 0, time.Duration(0)),
	)

	DescribeTable("LacksResult",
		func(lacks bool, base string, given ...func(*compaction.Input)) {
			c := compactionWith(append(changes{compactionJob(func(j *compaction.Job) { j.Outcome, j.BaseRevision = "None", base })}, given...)...)
			Expect(c.HasNoResult()).To(Equal(lacks))
		},
		Entry("of a Job after which the newest full snapshot is the one of before", true, "1000"),
		Entry("not of one after which there is a newer one", false, "900"),
		Entry("not of one for which there was nothing to do", false, "1000", delta("1000")),
		Entry("not of one that was made without a full snapshot", false, ""),
		Entry("not of one that runs", false, "1000", func(c *compaction.Input) { c.Job.Outcome = "" }),
		Entry("not of one that has failed", false, "1000", func(c *compaction.Input) { c.Job.Outcome = "DeadlineExceeded" }),
		Entry("not of one of which it is recorded how it ended", false, "1000", func(c *compaction.Input) { c.Job.Recorded = true }),
		Entry("not where the snapshots that are known of lie elsewhere", false, "1000", elsewhere),
		Entry("not where there is no Job", false, "1000", func(c *compaction.Input) { c.Job = nil }),
	)

	It("should let a Job have failed that has no result, and repeat it", func() {
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

	Describe("CompactionJobFor", func() {
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

		DescribeTable("should say how the Job ended",
			func(job *batchv1.Job, pods []corev1.Pod, outcome, message string) {
				obs := compaction.JobFor(job, pods)
				Expect(obs.Outcome).To(Equal(outcome))
				Expect(obs.Message).To(ContainSubstring(message))
				if outcome != "" {
					Expect(obs.EndTime).To(Equal(compactionNow))
				}
			},
			Entry("not at all", job(), nil, "", ""),
			Entry("well", job(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(compactionNow)}), nil, "None", "Job test-compactor has compacted"),
			Entry("too late", job(failed("DeadlineExceeded")), []corev1.Pod{pod(disrupted("TerminationByKubelet"))}, "DeadlineExceeded", "activeDeadlineDuration"),
			Entry("preempted", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(disrupted("PreemptionByScheduler"))}, "PreemptionByScheduler", "ended from outside"),
			Entry("with its node", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(disrupted("DeletionByTaintManager"))}, "DeletionByTaintManager", ""),
			Entry("evicted", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(disrupted("EvictionByEvictionAPI"))}, "EvictionByEvictionAPI", ""),
			Entry("ended by the kubelet", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(disrupted("TerminationByKubelet"))}, "TerminationByKubelet", ""),
			Entry("by its process", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(exited("no base\n  snapshot"))}, "ProcessFailure", "code 1: no base snapshot"),
			Entry("silently", job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(exited(""))}, "ProcessFailure", "it said nothing"),
			Entry("without a pod that tells", job(failed("BackoffLimitExceeded")), nil, "Unknown", "does not tell why"),
		)

		It("should believe what was noted when the pod is gone", func() {
			ended := job(failed("BackoffLimitExceeded"))
			ended.Annotations["etcd-druid.extensions.gardener.cloud/disruption"] = "PreemptionByScheduler"
			Expect(compaction.JobFor(ended, nil).Outcome).To(Equal("PreemptionByScheduler"))
		})

		It("should not look at the pods of an earlier Job", func() {
			other := pod(disrupted("PreemptionByScheduler"))
			other.OwnerReferences[0].UID = "other"
			Expect(compaction.JobFor(job(failed("BackoffLimitExceeded")), []corev1.Pod{other}).Outcome).To(Equal("Unknown"))
		})

		It("should cut short what a container said", func() {
			obs := compaction.JobFor(job(failed("BackoffLimitExceeded")), []corev1.Pod{pod(exited(strings.Repeat("x", 4000) + "the end"))})
			Expect(obs.Message).To(HaveSuffix("the end"))
			Expect(len(obs.Message)).To(BeNumerically("<", 600))
		})

		It("should believe what was recorded of a Job without a result", func() {
			ended := job(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(compactionNow)})
			ended.Annotations["etcd-druid.extensions.gardener.cloud/recorded"] = "ProcessFailure"
			obs := compaction.JobFor(ended, nil)
			Expect(obs.Outcome).To(Equal("ProcessFailure"))
			Expect(obs.IsLast()).To(BeFalse())
		})

		It("should read the attempt, the task and whether it is recorded", func() {
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
