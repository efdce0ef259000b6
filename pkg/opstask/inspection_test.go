// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
)

var createdAt = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// inspectionTask is a task of the Etcd main that inspects the backup store.
func inspectionTask(name string, config druidv1alpha1.BackupInspectionConfig) *druidv1alpha1.EtcdOpsTask {
	task := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: "task-uid", CreationTimestamp: metav1.NewTime(createdAt)}}
	task.Spec.EtcdName, task.Spec.Config.BackupInspection = new("main"), &config

	return task
}

func at(moment time.Time) *metav1.Time { return &metav1.Time{Time: moment} }

var _ = Describe("InspectionOf", func() {
	revision := druidv1alpha1.BackupPoint{Revision: new(int64(7))}

	It("should return the config of the spec", func() {
		config := druidv1alpha1.BackupInspectionConfig{Point: druidv1alpha1.BackupPoint{Time: at(createdAt)}, CompareWith: &druidv1alpha1.BackupPoint{}, TimeLimitSeconds: new(int32(60))}
		found, problem := opstask.InspectionOf(inspectionTask("a", config))
		Expect(problem).To(BeNil())
		Expect(found).To(Equal(config))
		Expect(opstask.InspectionTimeLimit(found)).To(Equal(time.Minute))
	})

	It("should prefer the annotation, because CustomResourceDefinitions of etcd-druid prune the config", func() {
		task := inspectionTask("a", druidv1alpha1.BackupInspectionConfig{Point: revision})
		task.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/backup-inspection": `{"point":{"revision":8},"compareWith":{"time":"2026-01-01T11:00:00Z"}}`}
		found, problem := opstask.InspectionOf(task)
		Expect(problem).To(BeNil())
		Expect(found.Point).To(Equal(druidv1alpha1.BackupPoint{Revision: new(int64(8))}))
		Expect(opstask.DescribePoint(*found.CompareWith)).To(Equal("2026-01-01T11:00:00Z"))
		Expect(opstask.InspectionTimeLimit(found)).To(Equal(15*time.Minute), "the API server sets no default in an annotation")
	})

	DescribeTable("should name the field that is wrong, and a remedy",
		func(message string, change func(*druidv1alpha1.EtcdOpsTask)) {
			task := inspectionTask("a", druidv1alpha1.BackupInspectionConfig{Point: revision})
			change(task)
			_, problem := opstask.InspectionOf(task)
			Expect(problem).NotTo(BeNil())
			Expect(problem.Code).To(BeEquivalentTo("ERR_INVALID_SPEC"))
			Expect(problem.Message).To(Equal(message))
		},
		Entry("no config", "spec.config.backupInspection: the field is missing: create the task with kubectl etcd inspect",
			func(task *druidv1alpha1.EtcdOpsTask) { task.Spec.Config.BackupInspection = nil }),
		Entry("a time after the task", "spec.config.backupInspection.compareWith.time: 2026-01-01T12:00:01Z is later than the creation of the task: use a time in the past",
			func(task *druidv1alpha1.EtcdOpsTask) {
				task.Spec.Config.BackupInspection.CompareWith = &druidv1alpha1.BackupPoint{Time: at(createdAt.Add(time.Second))}
			}),
		Entry("two points in one", "annotation etcd-druid.extensions.gardener.cloud/backup-inspection.point: both a revision and a time are set: set one of them",
			func(task *druidv1alpha1.EtcdOpsTask) {
				task.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/backup-inspection": `{"point":{"revision":8,"time":"2026-01-01T11:00:00Z"}}`}
			}),
		Entry("a revision before the first one", "spec.config.backupInspection.point.revision: it is 0: use a positive number",
			func(task *druidv1alpha1.EtcdOpsTask) {
				task.Spec.Config.BackupInspection.Point.Revision = new(int64(0))
			}),
		Entry("a long time limit", "spec.config.backupInspection.timeLimitSeconds: it is 14401: use a number from 60 to 14400",
			func(task *druidv1alpha1.EtcdOpsTask) {
				task.Spec.Config.BackupInspection.TimeLimitSeconds = new(int32(14401))
			}),
		Entry("no JSON", "annotation etcd-druid.extensions.gardener.cloud/backup-inspection: unexpected end of JSON input",
			func(task *druidv1alpha1.EtcdOpsTask) {
				task.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/backup-inspection": ""}
			}),
	)
})

var _ = Describe("An inspection", func() {
	state := func(task *druidv1alpha1.EtcdOpsTask, description string) *druidv1alpha1.EtcdOpsTask {
		task.Status.State = new(druidv1alpha1.TaskStateInProgress)
		task.Status.LastOperation = &druidv1alpha1.LastOperation{Description: description}

		return task
	}

	It("should wait only for other inspections, and no other task for it", func() {
		running := state(inspectionTask("running", druidv1alpha1.BackupInspectionConfig{}), "Attempt 1 of 3")
		pending, snapshot := inspectionTask("pending", druidv1alpha1.BackupInspectionConfig{}), inspectionTask("snapshot", druidv1alpha1.BackupInspectionConfig{})
		snapshot.Spec.Config = druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}}
		all := []druidv1alpha1.EtcdOpsTask{*running, *pending, *snapshot}
		Expect(opstask.WaitsForTask(running, all)).To(BeEmpty())
		Expect(opstask.WaitsForTask(pending, all)).To(Equal("running"))
		Expect(opstask.WaitsForTask(snapshot, all)).To(BeEmpty())
		state(snapshot, "Attempt 1 of 3")
		all = []druidv1alpha1.EtcdOpsTask{*pending, *snapshot}
		Expect(opstask.WaitsForTask(pending, all)).To(BeEmpty())
	})

	It("should be readable only as long as its status says so", func() {
		task := inspectionTask("a", druidv1alpha1.BackupInspectionConfig{})
		Expect(opstask.HasInspectionJob(task)).To(BeFalse())
		state(task, "Attempt 1 of 3: the Job runs")
		Expect(opstask.HasInspectionJob(task)).To(BeTrue())
		Expect(opstask.IsReadable(task)).To(BeFalse())
		state(task, "Attempt 1 of 3: the data can be read")
		Expect(opstask.HasInspectionJob(task)).To(BeTrue())
		Expect(opstask.IsReadable(task)).To(BeTrue())
		task.Status.State = new(druidv1alpha1.TaskStateSucceeded)
		Expect(opstask.IsReadable(task)).To(BeFalse())
	})

	It("should run while the cluster hibernates, but not without a store", func() {
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "demo"}}
		etcd.Spec.Labels = map[string]string{"role": "main"}
		task := inspectionTask("a", druidv1alpha1.BackupInspectionConfig{Point: druidv1alpha1.BackupPoint{Revision: new(int64(7))}})
		Expect(opstask.RefusalOf(task, etcd)).To(HaveField("Message", ContainSubstring("no spec.backup.store")))
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: "etcd-main", SecretRef: &corev1.SecretReference{Name: "store"}}
		Expect(opstask.RefusalOf(task, etcd)).To(BeNil())
		task.Spec.Config.BackupInspection.Point.Time = at(createdAt)
		Expect(opstask.RefusalOf(task, etcd)).To(HaveField("Message", ContainSubstring("set one of them")))
	})

	It("should have time for its preparation and its time limit", func() {
		task := inspectionTask("a", druidv1alpha1.BackupInspectionConfig{Point: druidv1alpha1.BackupPoint{Revision: new(int64(7))}})
		Expect(opstask.AttemptTimeout(task, &druidv1alpha1.Etcd{}, time.Hour)).To(Equal(85 * time.Minute))
	})
})

var _ = Describe("InspectionJobFor", func() {
	job := func(condition batchv1.JobConditionType, reason string) *batchv1.Job {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "job"}}
		if condition != "" {
			job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: "True", Reason: reason, Message: "a message"}}
		}

		return job
	}
	pod := func(owner types.UID, container string, code int32, message string, age time.Duration) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "pod", CreationTimestamp: metav1.NewTime(createdAt.Add(-age)), OwnerReferences: []metav1.OwnerReference{{Kind: "Job", UID: owner, Controller: new(true)}},
		}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}}}

		return pod
	}

	It("should be readable while its pod is ready", func() {
		Expect(opstask.InspectionJobFor(job("", ""), nil)).To(Equal(opstask.InspectionJob{UID: "job"}))
		ready := job("", "")
		ready.Status.Ready = new(int32(1))
		Expect(opstask.InspectionJobFor(ready, nil)).To(Equal(opstask.InspectionJob{UID: "job", IsReadable: true}))
	})

	It("should end without a problem at the time limit", func() {
		Expect(opstask.InspectionJobFor(job(batchv1.JobComplete, ""), nil)).To(Equal(opstask.InspectionJob{UID: "job", Ended: true}))
	})

	It("should report all points that exist", func() {
		message := "the snapshots do not lead to this point: revision 5; available revisions: " + strings.Repeat("17-47 (2026-01-01T10:00:00Z to 2026-01-01T11:00:00Z), ", 30) + "99"
		observed := opstask.InspectionJobFor(job(batchv1.JobFailed, "PodFailurePolicy"), []corev1.Pod{pod("job", "replay", 10, message+"\n", 0)})
		Expect(observed.Ended).To(BeTrue())
		Expect(*observed.Problem).To(Equal(opstask.Problem{Code: "ERR_BACKUP_INSPECTION", Message: message}))
	})

	DescribeTable("should report why a Job has failed",
		func(reason string, pods []corev1.Pod, expected string) {
			Expect(opstask.InspectionJobFor(job(batchv1.JobFailed, reason), pods).Problem.Message).To(Equal(expected))
		},
		Entry("the newest pod counts", "BackoffLimitExceeded", []corev1.Pod{pod("job", "fetch", 1, "earlier", time.Hour), pod("job", "fetch", 1, "access denied", 0)},
			"Container fetch of pod pod ended with code 1: access denied"),
		Entry("the second point", "PodFailurePolicy", []corev1.Pod{pod("job", "replay-compared", 10, "the snapshots do not lead to this point", 0)}, "the snapshots do not lead to this point"),
		Entry("pods of other owners do not count", "BackoffLimitExceeded", []corev1.Pod{pod("other", "fetch", 1, "access denied", 0)}, "The pod of the Job was deleted; a message"),
		Entry("a deadline", "DeadlineExceeded", []corev1.Pod{pod("job", "fetch", 1, "x", 0)}, "The Job took longer than its deadline"),
		Entry("a pod without a failed container", "BackoffLimitExceeded", []corev1.Pod{pod("job", "fetch", 0, "", 0)}, "Pod pod reports no reason; a message"),
	)
})
