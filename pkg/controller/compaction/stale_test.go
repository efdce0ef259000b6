// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction_test

import (
	"context"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// versioned observes an Etcd with etcd 3.5, and a pod with that image of the sidecar.
type versioned struct{ sidecar string }

func (v versioned) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	sets := map[string]state.Images{"3.4": {BackupRestore: "b4"}, "3.5": {BackupRestore: "b5"}}

	return etcdcluster.Observation{
		State: state.State{EtcdVersion: "3.5", Accepted: &state.Accepted{Generation: 1, Defaults: state.Defaults{ImageSets: sets}}},
		Pods:  []etcdcluster.Pod{{Name: "main-0", Containers: []etcdcluster.Container{{Name: "backup-restore", Image: v.sidecar}}}},
	}
}

// acceptedClass observes an Etcd whose last accepted generation has the PriorityClass.
type acceptedClass struct {
	rolledOut

	name string
}

func (a acceptedClass) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	return etcdcluster.Observation{State: state.State{Accepted: &state.Accepted{Generation: 1, Spec: &druidv1alpha1.EtcdSpec{PriorityClassName: &a.name}}}}
}

func (versioned) HostPath(context.Context, string, backupstore.Store) (string, error) { return "", nil }

var _ = Describe("A compaction controller whose cache shows an old record", func() {
	const (
		current    = `{"version":1}`
		rolledBack = `{"version":1,"evidence":{"highestRevision":5000,"rolledBack":{"revision":1100,"at":"2026-01-01T00:00:00Z"}}}`
	)
	const givenUp = `{"version":1,"evidence":{"highestRevision":1100,"acceptedRevision":1100,"lostRevision":6000}}`
	record := func(state string) *resourcesv1alpha1.ManagedResource {
		return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "druid-main", Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/state": state},
		}}
	}
	// reconcileWith returns the numbers of Jobs and of tasks after one reconciliation.
	reconcileWith := func(ctx context.Context, cached, stored string, fullSnapshotThreshold int64) (int, int) {
		GinkgoHelper()
		c := fake.NewClientBuilder().WithScheme(app.NewScheme()).WithStatusSubresource(&druidv1alpha1.Etcd{}).WithObjects(
			storedEtcd(), leaseOf("main-full-snap", 1000), leaseOf("main-delta-snap", 5000), record(cached),
		).Build()
		r := &compaction.Reconciler{
			Client: c, Reader: fake.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(record(stored)).Build(),
			Observer: rolledOut{}, Clock: testclock.NewFakePassiveClock(now), Recorder: events.NewFakeRecorder(1000),
			Config: compaction.Config{EventsThreshold: 1000, FullSnapshotThreshold: fullSnapshotThreshold, Deadline: time.Hour},
		}
		Expect(r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "main"}})).To(BeZero())
		jobs, tasks := &batchv1.JobList{}, &druidv1alpha1.EtcdOpsTaskList{}
		Expect(c.List(ctx, jobs)).To(Succeed())
		Expect(c.List(ctx, tasks)).To(Succeed())

		return len(jobs.Items), len(tasks.Items)
	}

	DescribeTable("reads the record from the API server", func(ctx SpecContext, stored string, fullSnapshotThreshold int64, jobs, tasks int) {
		gotJobs, gotTasks := reconcileWith(ctx, current, stored, fullSnapshotThreshold)
		Expect(gotJobs).To(Equal(jobs), "Jobs")
		Expect(gotTasks).To(Equal(tasks), "tasks")
	},
		Entry("and starts a Job if no acknowledged write is lost", current, int64(100_000), 1, 0),
		Entry("and starts no Job after acknowledged writes are lost", rolledBack, int64(100_000), 0, 0),
		Entry("and starts no Job while snapshots may contain writes that a user has given up", givenUp, int64(100_000), 0, 0),
		Entry("and requests a full snapshot if no acknowledged write is lost", current, int64(3000), 0, 1),
		Entry("and requests no full snapshot after acknowledged writes are lost", rolledBack, int64(3000), 0, 0),
	)

	DescribeTable("starts a Job only if the pods have the recorded version of etcd", func(ctx SpecContext, image string, jobs int) {
		c := fake.NewClientBuilder().WithScheme(app.NewScheme()).WithStatusSubresource(&druidv1alpha1.Etcd{}).WithObjects(
			storedEtcd(), leaseOf("main-full-snap", 1000), leaseOf("main-delta-snap", 5000), record(current),
		).Build()
		r := &compaction.Reconciler{
			Client: c, Reader: c, Observer: versioned{image}, Clock: testclock.NewFakePassiveClock(now), Recorder: events.NewFakeRecorder(1000),
			Config: compaction.Config{EventsThreshold: 1000, FullSnapshotThreshold: 100_000, Deadline: time.Hour},
		}
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "main"}})
		Expect(err).NotTo(HaveOccurred())
		list := &batchv1.JobList{}
		Expect(c.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(HaveLen(jobs))
	},
		Entry("the recorded one", "b5", 1),
		Entry("another one", "b4", 0),
		Entry("that of an image which the operator does not know", "other", 1),
	)

	DescribeTable("starts a Job only with values that the configuration allows, or with which the Etcd runs", func(ctx SpecContext, accepted string, allowed []string, jobs int) {
		etcd := storedEtcd()
		etcd.Spec.PriorityClassName = new("high")
		c := fake.NewClientBuilder().WithScheme(app.NewScheme()).WithStatusSubresource(&druidv1alpha1.Etcd{}).WithObjects(
			etcd, leaseOf("main-full-snap", 1000), leaseOf("main-delta-snap", 5000), record(current),
		).Build()
		recorder := events.NewFakeRecorder(1000)
		r := &compaction.Reconciler{
			Client: c, Reader: c, Observer: acceptedClass{name: accepted}, Clock: testclock.NewFakePassiveClock(now), Recorder: recorder,
			Config: compaction.Config{
				EventsThreshold: 1000, FullSnapshotThreshold: 100_000, Deadline: time.Hour, Restrictions: restrictions.Restrictions{AllowedPriorityClasses: allowed},
			},
		}
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "main"}})
		Expect(err).NotTo(HaveOccurred())
		list := &batchv1.JobList{}
		Expect(c.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(HaveLen(jobs))
		if jobs == 0 {
			Expect(recorder.Events).To(Receive(ContainSubstring("CompactionPending Waiting before compacting snapshots for a spec that the operator may use: spec.priorityClassName: Forbidden: restrictions.allowedPriorityClasses")))
		}
	},
		Entry("without restrictions", "low", nil, 1),
		Entry("an allowed PriorityClass", "low", []string{"high"}, 1),
		Entry("a PriorityClass that is not allowed", "low", []string{"low"}, 0),
		Entry("the PriorityClass of the last accepted generation", "high", []string{}, 1),
	)
})

var _ = Describe("A compaction controller whose cache shows a failed Job and not how its pod ended", func() {
	failedJob := func() *batchv1.Job {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "main-compactor", UID: "job-uid", Labels: helper.DefaultLabels(storedEtcd()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(storedEtcd(), druidv1alpha1.SchemeGroupVersion.WithKind("Etcd"))},
		}}
		job.Status.Conditions = []batchv1.JobCondition{{
			Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", LastTransitionTime: metav1.NewTime(now),
		}}

		return job
	}
	podWith := func(status corev1.PodStatus) *corev1.Pod {
		labels := helper.DefaultLabels(storedEtcd())
		labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameSnapshotCompactionJob

		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "main-compactor-x", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(failedJob(), batchv1.SchemeGroupVersion.WithKind("Job"))},
		}, Status: status}
	}

	DescribeTable("records the reason from the API server", func(ctx SpecContext, stored corev1.PodStatus, reason string) {
		c := fake.NewClientBuilder().WithScheme(app.NewScheme()).WithStatusSubresource(&druidv1alpha1.Etcd{}).WithObjects(
			storedEtcd(), leaseOf("main-full-snap", 1000), leaseOf("main-delta-snap", 5000), failedJob(), podWith(corev1.PodStatus{Phase: corev1.PodRunning}),
		).Build()
		r := &compaction.Reconciler{
			Client: c, Reader: fake.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(podWith(stored)).Build(),
			Observer: rolledOut{}, Clock: testclock.NewFakePassiveClock(now), Recorder: events.NewFakeRecorder(1000),
			Config: compaction.Config{EventsThreshold: 1000, FullSnapshotThreshold: 100_000, Deadline: time.Hour},
		}
		Expect(r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "main"}})).To(BeZero())
		job := failedJob()
		Expect(c.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
		Expect(job.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/recorded", reason))
	},
		Entry("if the container has ended", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "compact-backup", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no base snapshot found"}},
		}}}, druidv1alpha1.PodFailureReasonProcessFailure),
		Entry("if the pod was disrupted", corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: druidv1alpha1.PodFailureReasonPreemptionByScheduler,
		}}}, druidv1alpha1.PodFailureReasonPreemptionByScheduler),
		Entry("if the pod contains no reason there either", corev1.PodStatus{Phase: corev1.PodFailed}, druidv1alpha1.PodFailureReasonUnknown),
	)
})
