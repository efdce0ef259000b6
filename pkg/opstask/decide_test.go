// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var taskNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type taskChange = func(*opstask.Task)

// taskThat is a task with three attempts and a deadline of one hour.
func taskThat(state string, changes ...taskChange) opstask.Task {
	task := opstask.Task{
		State:  druidv1alpha1.TaskState(state),
		Since:  taskNow.Add(-time.Minute),
		TTL:    10 * time.Minute,
		Limits: opstask.Limits{Attempts: 3, Deadline: time.Hour},
	}
	if state == "InProgress" {
		task.StartedAt = task.Since
	}
	for _, change := range changes {
		change(&task)
	}

	return task
}

func taskWaitsFor(name string) taskChange { return func(t *opstask.Task) { t.WaitsForTask = name } }
func taskRefused(t *opstask.Task) {
	t.Refusal = &opstask.Problem{Code: "NO", Message: "no"}
}
func taskBlocked(t *opstask.Task) {
	t.Precondition = &opstask.Problem{Code: "WAIT", Message: "Waiting"}
}
func taskDeleting(t *opstask.Task) { t.Deleting = true }
func taskRuns(t *opstask.Task)     { t.Call = opstask.Call{Running: true} }
func taskDone(t *opstask.Task)     { t.Call = opstask.Call{Ended: true} }
func taskBroken(t *opstask.Task) {
	t.Call = opstask.Call{Ended: true, Problem: &opstask.Problem{Code: "BROKEN", Message: "broken"}}
}
func taskBrokenForGood(t *opstask.Task) { taskBroken(t); t.Call.Final = true }
func taskFailedBefore(times int) taskChange {
	return func(t *opstask.Task) { t.FailedAttempts, t.LastFailure = times, taskNow.Add(-4*time.Second) }
}
func taskNotAfter(left time.Duration) taskChange {
	return func(t *opstask.Task) { t.NotAfter = taskNow.Add(left) }
}
func taskFor(duration time.Duration) taskChange {
	return func(t *opstask.Task) { t.StartedAt, t.Since = taskNow.Add(-duration), taskNow.Add(-duration) }
}

var _ = Describe("Task", func() {
	type changes = []taskChange

	DescribeTable("Decide",
		func(state string, given changes, action, code string, requeueAfter time.Duration) {
			decision := taskThat(state, given...).Decide(taskNow)
			Expect(string(decision.Action)).To(Equal(action))
			Expect(decision.RequeueAfter).To(Equal(requeueAfter))
			if code == "" {
				Expect(decision.Problem).To(BeNil())
			} else {
				Expect(string(decision.Problem.Code)).To(Equal(code))
				Expect(decision.Problem.Message).NotTo(BeEmpty())
			}
		},
		Entry("accepts a new task", "", nil, "Accept", "", time.Duration(0)),
		Entry("accepts a task that will be rejected, so that its status has the reason", "", changes{taskRefused}, "Accept", "", time.Duration(0)),
		Entry("waits for a task that runs first", "Pending", changes{taskWaitsFor("first")}, "Wait", "", time.Duration(0)),
		Entry("rejects a task that can never run without waiting in the queue", "Pending", changes{taskRefused, taskWaitsFor("first")}, "Reject", "NO", time.Duration(0)),
		Entry("starts the first task in the queue", "Pending", nil, "Start", "", time.Duration(0)),
		Entry("starts it if the Etcd is not ready, because the deadline counts from its start", "Pending", changes{taskBlocked}, "Start", "", time.Duration(0)),
		Entry("waits in the queue until it may not start any more", "Pending", changes{taskWaitsFor("first"), taskNotAfter(time.Minute)}, "Wait", "", time.Minute),
		Entry("rejects a task that may not start any more", "Pending", changes{taskWaitsFor("first"), taskNotAfter(0)}, "Reject", "ERR_OPERATION_CANCELLED", time.Duration(0)),
		Entry("starts an attempt while it may", "InProgress", changes{taskNotAfter(time.Second)}, "Try", "", time.Duration(0)),
		Entry("starts no attempt that may not start any more", "InProgress", changes{taskBlocked, taskNotAfter(0)}, "Fail", "ERR_OPERATION_CANCELLED", time.Duration(0)),
		Entry("ends an attempt that began in time", "InProgress", changes{taskRuns, taskNotAfter(0)}, "Wait", "", 59*time.Minute),
		Entry("starts an attempt", "InProgress", nil, "Try", "", time.Duration(0)),
		Entry("starts another attempt if no call is known", "InProgress", changes{taskFor(30 * time.Minute)}, "Try", "", time.Duration(0)),
		Entry("waits for the precondition", "InProgress", changes{taskBlocked}, "Wait", "", 59*time.Minute),
		Entry("waits for the precondition no longer than the deadline", "InProgress", changes{taskBlocked, taskFor(time.Hour)}, "Fail", "WAIT", time.Duration(0)),
		Entry("waits for a running attempt", "InProgress", changes{taskRuns}, "Wait", "", 59*time.Minute),
		Entry("waits for a running attempt if the precondition is no longer met", "InProgress", changes{taskRuns, taskBlocked}, "Wait", "", 59*time.Minute),
		Entry("fails at the deadline while an attempt is running", "InProgress", changes{taskRuns, taskBlocked, taskFor(time.Hour)}, "Fail", "ERR_OPERATION_CANCELLED", time.Duration(0)),
		Entry("succeeds", "InProgress", changes{taskDone}, "Succeed", "", time.Duration(0)),
		Entry("succeeds after the deadline", "InProgress", changes{taskDone, taskFor(2 * time.Hour)}, "Succeed", "", time.Duration(0)),
		Entry("succeeds after the Etcd was deleted", "InProgress", changes{taskDone, taskRefused}, "Succeed", "", time.Duration(0)),
		Entry("records a failed attempt", "InProgress", changes{taskBroken}, "TryAgain", "BROKEN", time.Duration(0)),
		Entry("records a second failed attempt", "InProgress", changes{taskBroken, taskFailedBefore(1)}, "TryAgain", "BROKEN", time.Duration(0)),
		Entry("fails after the third attempt", "InProgress", changes{taskBroken, taskFailedBefore(2)}, "Fail", "BROKEN", time.Duration(0)),
		Entry("fails if another attempt would fail too", "InProgress", changes{taskBrokenForGood}, "Fail", "BROKEN", time.Duration(0)),
		Entry("pauses before the next attempt", "InProgress", changes{taskFailedBefore(1)}, "Wait", "", 6*time.Second),
		Entry("pauses twice as long before the third attempt", "InProgress", changes{taskFailedBefore(2)}, "Wait", "", 16*time.Second),
		Entry("fails if the Etcd is deleted", "InProgress", changes{taskRefused, taskRuns}, "Fail", "NO", time.Duration(0)),
		Entry("keeps a succeeded task for its TTL", "Succeeded", nil, "Wait", "", 9*time.Minute),
		Entry("keeps a rejected task for its TTL", "Rejected", nil, "Wait", "", 9*time.Minute),
		Entry("deletes a task after its TTL", "Failed", changes{taskFor(10 * time.Minute)}, "Delete", "", time.Duration(0)),
		Entry("releases a running task that is being deleted", "InProgress", changes{taskDeleting, taskRuns}, "Release", "", time.Duration(0)),
		Entry("releases a task that is deleted before its first reconciliation", "", changes{taskDeleting}, "Release", "", time.Duration(0)),
	)

	Describe("WaitsForTask", func() {
		task := func(name, etcd, state string, second int) druidv1alpha1.EtcdOpsTask {
			task := druidv1alpha1.EtcdOpsTask{
				ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(taskNow.Add(time.Duration(second) * time.Second))},
				Spec:       druidv1alpha1.EtcdOpsTaskSpec{EtcdName: &etcd},
			}
			if state != "" {
				task.Status.State = new(druidv1alpha1.TaskState(state))
			}

			return task
		}
		own := task("own", "main", "Pending", 10)
		drillTask := func(description string) druidv1alpha1.EtcdOpsTask {
			task := task("drill", "main", "InProgress", 5)
			task.Spec.Config = drillConfig
			task.Status.LastOperation = &druidv1alpha1.LastOperation{Description: description}

			return task
		}

		DescribeTable("should return the task that runs first",
			func(ahead string, others ...druidv1alpha1.EtcdOpsTask) {
				Expect(opstask.WaitsForTask(&own, append(others, own))).To(Equal(ahead))
			},
			Entry("alone", ""),
			Entry("after an older one", "older", task("older", "main", "Pending", 9)),
			Entry("after an older one without a state", "older", task("older", "main", "", 9)),
			Entry("before a younger one", "", task("younger", "main", "Pending", 11)),
			Entry("after a younger one in progress", "younger", task("younger", "main", "InProgress", 11)),
			Entry("after a restore drill that reads from the members", "drill", drillTask("Attempt 1 of 3")),
			Entry("not after a restore drill whose Job runs", "", drillTask("Attempt 1 of 3: the Job runs")),
			Entry("after an older one, although the Job of a restore drill runs", "older", drillTask("Attempt 1 of 3: the Job runs"), task("older", "main", "Pending", 9)),
			Entry("after the oldest", "first", task("second", "main", "Pending", 9), task("first", "main", "Pending", 8)),
			Entry("after one of the same second whose name is smaller", "another", task("another", "main", "Pending", 10)),
			Entry("before one of the same second whose name is greater", "", task("zero", "main", "Pending", 10)),
			Entry("not after one that has ended", "", task("older", "main", "Failed", 9), task("oldest", "main", "Succeeded", 8), task("x", "main", "Rejected", 8)),
			Entry("not after one on another Etcd", "", task("older", "events", "InProgress", 9)),
		)

		It("should let a restore drill wait for the Job of another one", func() {
			second := own
			second.Spec.Config = drillConfig
			Expect(opstask.WaitsForTask(&second, []druidv1alpha1.EtcdOpsTask{drillTask("Attempt 1 of 3: the Job runs"), second})).To(Equal("drill"))
		})
	})

	DescribeTable("RefusalOf",
		func(config druidv1alpha1.EtcdOpsTaskConfig, etcd *druidv1alpha1.Etcd, code string) {
			refusal := opstask.RefusalOf(&druidv1alpha1.EtcdOpsTask{Spec: druidv1alpha1.EtcdOpsTaskSpec{EtcdName: new("test"), Config: config}}, etcd)
			if code == "" {
				Expect(refusal).To(BeNil())
			} else {
				Expect(string(refusal.Code)).To(Equal(code))
			}
		},
		Entry("nothing against a snapshot", snapshotConfig("full"), fixture.Etcd(fixture.WithStore("S3")), ""),
		Entry("no store for a snapshot", snapshotConfig("delta"), fixture.Etcd(), "ERR_BACKUP_NOT_ENABLED"),
		Entry("no store for a compaction", compactionConfig, fixture.Etcd(), "ERR_BACKUP_NOT_ENABLED"),
		Entry("nothing against a compaction while the cluster hibernates", compactionConfig, fixture.Etcd(fixture.WithStore("S3"), fixture.WithReplicas(0)), ""),
		Entry("no leases for a compaction", compactionConfig, fixture.Etcd(fixture.WithStore("S3"), fixture.WithAnnotation("druid.gardener.cloud/disable-etcd-runtime-component-creation", "")), "ERR_BACKUP_NOT_ENABLED"),
		Entry("nothing against a defragmentation without a store", defragmentationConfig, fixture.Etcd(), ""),
		Entry("no member for a snapshot while the cluster hibernates", snapshotConfig("full"), fixture.Etcd(fixture.WithStore("S3"), fixture.WithReplicas(0)), "ERR_ETCD_NOT_READY"),
		Entry("externally managed members", defragmentationConfig, fixture.Etcd(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1"} }), "ERR_ETCD_NOT_READY"),
		Entry("no Etcd", snapshotConfig("full"), nil, "ERR_GET_ETCD"),
		Entry("an Etcd that is being deleted", snapshotConfig("full"), fixture.Etcd(func(etcd *druidv1alpha1.Etcd) { etcd.DeletionTimestamp = new(metav1.Now()) }), "ERR_GET_ETCD"),
		Entry("nothing against a restore drill", drillConfig, fixture.Etcd(fixture.WithStore("S3")), ""),
		Entry("no store for a restore drill", drillConfig, fixture.Etcd(), "ERR_BACKUP_NOT_ENABLED"),
		Entry("no member for a restore drill while the cluster hibernates", drillConfig, fixture.Etcd(fixture.WithStore("S3"), fixture.WithReplicas(0)), "ERR_ETCD_NOT_READY"),
		Entry("an unknown kind", druidv1alpha1.EtcdOpsTaskConfig{}, fixture.Etcd(), "ERR_INVALID_SPEC"),
		Entry("a time limit out of bounds", druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "full", TimeoutSecondsFull: new(int32(86401))}},
			fixture.Etcd(fixture.WithStore("S3")), "ERR_INVALID_SPEC"),
	)

	It("RefusalOf should have nothing against a task that runs with a value out of bounds", func() {
		task := &druidv1alpha1.EtcdOpsTask{Spec: druidv1alpha1.EtcdOpsTaskSpec{EtcdName: new("test"), Config: druidv1alpha1.EtcdOpsTaskConfig{
			OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "full", TimeoutSecondsFull: new(int32(86401))},
		}}}
		task.Status.State = new(druidv1alpha1.TaskStateInProgress)
		Expect(opstask.RefusalOf(task, fixture.Etcd(fixture.WithStore("S3")))).To(BeNil())
	})

	DescribeTable("TaskLimitsFor",
		func(config druidv1alpha1.EtcdOpsTaskConfig, attempts int, deadline time.Duration) {
			limits := opstask.LimitsFor(&druidv1alpha1.EtcdOpsTask{Spec: druidv1alpha1.EtcdOpsTaskSpec{Config: config}}, fixture.Etcd(fixture.WithReplicas(3)), time.Hour)
			Expect(limits.Attempts).To(Equal(attempts))
			Expect(limits.Deadline).To(Equal(deadline))
		},
		Entry("of a full snapshot", snapshotConfig("full"), 3, 45*time.Minute+10*time.Minute),
		Entry("of a delta snapshot", snapshotConfig("delta"), 3, 3*time.Minute+10*time.Minute),
		Entry("of a compaction", compactionConfig, 1, 3*time.Hour+10*time.Minute+10*time.Minute),
		Entry("of a defragmentation", defragmentationConfig, 3, 3*(3*15*time.Minute+time.Minute)+10*time.Minute),
		Entry("of a restore drill", drillConfig, 3, 3*(time.Hour+10*time.Minute)+10*time.Minute),
	)
})

var (
	compactionConfig      = druidv1alpha1.EtcdOpsTaskConfig{Compaction: &druidv1alpha1.CompactionConfig{}}
	drillConfig           = druidv1alpha1.EtcdOpsTaskConfig{RestoreDrill: &druidv1alpha1.RestoreDrillConfig{}}
	defragmentationConfig = druidv1alpha1.EtcdOpsTaskConfig{Defragmentation: &druidv1alpha1.DefragmentationConfig{}}
)

func snapshotConfig(kind string) druidv1alpha1.EtcdOpsTaskConfig {
	return druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotType(kind)}}
}
