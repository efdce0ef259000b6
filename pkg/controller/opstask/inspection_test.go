// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	fakesidecar "github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/crash"
)

// inspectedMember observes a cluster of one member that the operator has rolled out.
type inspectedMember struct {
	oneMember

	unhealthy bool
}

func (o *inspectedMember) Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation {
	observation := o.oneMember.Observe(ctx, etcd, request)
	observation.State = state.State{Accepted: &state.Accepted{Generation: 1, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {BackupRestore: "sidecar"}}}}}
	observation.Etcd.Members[0].Healthy = !o.unhealthy

	return observation
}

// inspectedStore returns a store with a full snapshot up to revision 4. The cluster is at revision 7.
func inspectedStore(ctx context.Context) *fakesidecar.Store {
	GinkgoHelper()
	store := fakesidecar.NewStore(func() time.Time { return now })
	store.SetRevision(4)
	sidecarClient, err := store.Connect(sidecar.Target{})
	Expect(err).NotTo(HaveOccurred())
	Expect(sidecarClient.FullSnapshot(ctx)).Error().NotTo(HaveOccurred())
	store.SetRevision(7)

	return store
}

// inspectedObjects are an Etcd, and a task that inspects its backup store.
func inspectedObjects(config druidv1alpha1.BackupInspectionConfig) []client.Object {
	etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: "etcd-uid", Generation: 1}}
	etcd.Spec.Replicas, etcd.Spec.Labels = 1, map[string]string{"role": "main"}
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
		Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: "etcd-main", SecretRef: &corev1.SecretReference{Name: "store"},
	}
	task := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "inspection", UID: "task-uid", CreationTimestamp: metav1.NewTime(now)}}
	task.Spec.EtcdName, task.Spec.Config.BackupInspection = new("main"), &config

	return []client.Object{etcd, task}
}

func inspectionReconciler(c client.Client, o opstask.Observer, runner *calls.Runner[opstask.Outcome], recorder events.EventRecorder) *opstask.Reconciler {
	return &opstask.Reconciler{
		Client: c, Reader: c, Observer: o, Calls: runner, RequeueInterval: time.Second, JobDeadline: time.Hour, Clock: testclock.NewFakePassiveClock(now),
		Recorder: recorder, Drills: opstask.Drills{EtcdHelper: target.EtcdHelper{Image: "helper"}},
	}
}

// startCalls starts a runner of calls until the context ends.
func startCalls(ctx context.Context) *calls.Runner[opstask.Outcome] {
	runner, isStarted := calls.NewRunner[opstask.Outcome](), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		_ = runner.Start(started{Context: ctx, onDone: sync.OnceFunc(func() { close(isStarted) })})
	}()
	<-isStarted

	return runner
}

var _ = Describe("An inspection of the backup store", func() {
	var (
		member   *inspectedMember
		recorder *events.FakeRecorder
		c        client.Client
		// restart starts another operator. reconcile reconciles until a call has ended, and its result is in the status.
		restart, reconcileTask func(context.Context)
	)
	key := client.ObjectKey{Namespace: "demo", Name: "inspection"}
	start := func(ctx context.Context, config druidv1alpha1.BackupInspectionConfig) {
		GinkgoHelper()
		c = fakeclient.NewClientBuilder().WithScheme(app.NewScheme()).WithStatusSubresource(&druidv1alpha1.EtcdOpsTask{}, &batchv1.Job{}).WithObjects(inspectedObjects(config)...).Build()
		restart(ctx)
		reconcileTask(ctx)
	}
	found := func(ctx context.Context) *druidv1alpha1.EtcdOpsTask {
		GinkgoHelper()
		task := &druidv1alpha1.EtcdOpsTask{}
		Expect(c.Get(ctx, key, task)).To(Succeed())

		return task
	}
	jobs := func(ctx context.Context) []batchv1.Job {
		GinkgoHelper()
		list := &batchv1.JobList{}
		Expect(c.List(ctx, list)).To(Succeed())

		return list.Items
	}
	setStatus := func(ctx context.Context, change func(*batchv1.JobStatus)) {
		GinkgoHelper()
		job := jobs(ctx)[0]
		change(&job.Status)
		Expect(c.Status().Update(ctx, &job)).To(Succeed())
		reconcileTask(ctx)
	}
	described := func(ctx context.Context, state druidv1alpha1.TaskState, description string) {
		GinkgoHelper()
		Expect(found(ctx).Status).To(And(HaveField("State", HaveValue(Equal(state))), HaveField("LastOperation.Description", Equal(description))))
	}
	commands := func(ctx context.Context) (commands []string) {
		GinkgoHelper()
		Expect(jobs(ctx)).To(HaveLen(1))
		pod := jobs(ctx)[0].Spec.Template.Spec
		for _, container := range append(pod.InitContainers, pod.Containers...) {
			commands = append(commands, fmt.Sprint(container.Args, container.Command))
		}

		return commands
	}
	revision := func(number int64) druidv1alpha1.BackupPoint {
		return druidv1alpha1.BackupPoint{Revision: &number}
	}

	BeforeEach(func(ctx SpecContext) {
		member = &inspectedMember{oneMember: oneMember{inspectedStore(ctx)}}
		process, stop := context.WithCancel(context.Background())
		DeferCleanup(func() { stop() })
		restart = func(context.Context) {
			stop()
			process, stop = context.WithCancel(context.Background())
			runner := startCalls(process)
			recorder = events.NewFakeRecorder(1000)
			r := inspectionReconciler(c, member, runner, recorder)
			reconcileTask = func(ctx context.Context) {
				GinkgoHelper()
				for range 5 {
					Expect(r.Reconcile(ctx, reconcile.Request{NamespacedName: key})).Error().NotTo(HaveOccurred())
					Eventually(func() bool {
						_, isRunning, _ := runner.Outcome("task-uid")

						return isRunning
					}).WithPolling(time.Millisecond).WithTimeout(10 * time.Second).Should(BeFalse())
				}
			}
		}
	})

	It("reports what it shows on the Etcd, and ends with its time limit", func(ctx SpecContext) {
		start(ctx, druidv1alpha1.BackupInspectionConfig{Point: revision(5), TimeLimitSeconds: new(int32(300))})
		described(ctx, "InProgress", "Attempt 1 of 3: the Job runs")
		Expect(recorder.Events).To(Receive(Equal("Normal InspectingBackup EtcdOpsTask inspection makes the data of the backup store at revision 5 readable for 5m0s, including Secrets")))
		Expect(commands(ctx)).To(HaveExactElements(ContainSubstring("--max-backups-to-copy=2"), ContainSubstring("--revision=5"), ContainSubstring("wait --for=5m0s")))
		Expect(member.store.SnapshotRequests()).To(Equal(1), "no snapshot is taken for a revision")

		setStatus(ctx, func(status *batchv1.JobStatus) { status.Ready = new(int32(1)) })
		described(ctx, "InProgress", "Attempt 1 of 3: the data can be read")
		setStatus(ctx, func(status *batchv1.JobStatus) {
			status.Ready, status.Conditions = nil, []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		})
		described(ctx, "Succeeded", "The time limit of the inspection has ended")
	})

	It("takes a delta snapshot to compare with the running cluster", func(ctx SpecContext) {
		start(ctx, druidv1alpha1.BackupInspectionConfig{Point: revision(4), CompareWith: &druidv1alpha1.BackupPoint{}})
		Expect(commands(ctx)).To(HaveExactElements(ContainSubstring("--max-backups-to-copy=2"), ContainSubstring("--revision=4"),
			And(ContainSubstring("compared.db"), Not(ContainSubstring("--revision")), Not(ContainSubstring("--time="))), ContainSubstring("wait")))
		Expect(member.store.SnapshotRequests()).To(Equal(2))
		Expect(recorder.Events).To(Receive(ContainSubstring("at revision 4 and at the newest revision readable for 15m0s")))
	})

	It("copies all snapshots for a point before the newest full snapshot", func(ctx SpecContext) {
		start(ctx, druidv1alpha1.BackupInspectionConfig{Point: druidv1alpha1.BackupPoint{Time: &metav1.Time{Time: now.Add(-time.Second)}}})
		Expect(commands(ctx)).To(HaveExactElements(ContainSubstring("--max-backups-to-copy=-1"), ContainSubstring("--time=2026-01-01T11:59:59Z"), ContainSubstring("wait")))
	})

	It("reads the store without a healthy member, but not the running cluster", func(ctx SpecContext) {
		member.unhealthy = true
		start(ctx, druidv1alpha1.BackupInspectionConfig{Point: revision(5)})
		Expect(commands(ctx)).To(ContainElement(ContainSubstring("--max-backups-to-copy=-1")))

		start(ctx, druidv1alpha1.BackupInspectionConfig{Point: revision(5), CompareWith: &druidv1alpha1.BackupPoint{}})
		Expect(jobs(ctx)).To(BeEmpty())
		Expect(found(ctx).Status.LastErrors).To(ConsistOf(And(
			HaveField("Code", BeEquivalentTo("ERR_BACKUP_INSPECTION")), HaveField("Description", ContainSubstring("no member in a pod of the operator is healthy")))))
	})

	It("fails with the points that exist, and is not repeated", func(ctx SpecContext) {
		start(ctx, druidv1alpha1.BackupInspectionConfig{Point: revision(3)})
		job := jobs(ctx)[0]
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "main-insp-abcde", Labels: job.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "replay", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 10, Message: "the snapshots do not lead to this point: revision 3; available revisions: 4-7",
		}}}}
		Expect(c.Create(ctx, pod)).To(Succeed())
		setStatus(ctx, func(status *batchv1.JobStatus) {
			status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "PodFailurePolicy"}}
		})
		described(ctx, "Failed", "the snapshots do not lead to this point: revision 3; available revisions: 4-7")
	})

	It("rejects a point in the future", func(ctx SpecContext) {
		start(ctx, druidv1alpha1.BackupInspectionConfig{Point: druidv1alpha1.BackupPoint{Time: &metav1.Time{Time: now.Add(time.Minute)}}})
		described(ctx, "Rejected", "spec.config.backupInspection.point.time: 2026-01-01T12:01:00Z is later than the creation of the task: use a time in the past")
		Expect(jobs(ctx)).To(BeEmpty())
	})

	It("continues after a restart of the operator, and shows nothing twice", func(ctx SpecContext) {
		start(ctx, druidv1alpha1.BackupInspectionConfig{Point: revision(5)})
		uid := jobs(ctx)[0].UID
		restart(ctx)
		reconcileTask(ctx)
		described(ctx, "InProgress", "Attempt 1 of 3: the Job runs")
		Expect(jobs(ctx)).To(ConsistOf(HaveField("UID", uid)))

		By("deleting the Job while no operator runs")
		Expect(c.Delete(ctx, &jobs(ctx)[0])).To(Succeed())
		restart(ctx)
		reconcileTask(ctx)
		described(ctx, "Failed", "The Job of the inspection was deleted before its time limit")
		Expect(jobs(ctx)).To(BeEmpty())
	})

	It("ends when its task is deleted, also after the task has ended", func(ctx SpecContext) {
		for _, condition := range []batchv1.JobConditionType{"", batchv1.JobFailed} {
			start(ctx, druidv1alpha1.BackupInspectionConfig{Point: revision(5)})
			if condition != "" {
				setStatus(ctx, func(status *batchv1.JobStatus) {
					status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue}}
				})
			}
			Expect(jobs(ctx)).To(HaveLen(1))
			Expect(c.Delete(ctx, found(ctx))).To(Succeed())
			reconcileTask(ctx)
			Expect(jobs(ctx)).To(BeEmpty())
			Expect(c.Get(ctx, key, &druidv1alpha1.EtcdOpsTask{})).To(MatchError(ContainSubstring("not found")))
		}
	})

	It("has one Job, also if the operator is killed at any of its writes", func(ctx SpecContext) {
		result, err := crash.Run(ctx, crash.Case{
			Scheme: app.NewScheme(),
			Objects: func() []client.Object {
				return inspectedObjects(druidv1alpha1.BackupInspectionConfig{Point: revision(5)})
			},
			Status: []client.Object{&druidv1alpha1.EtcdOpsTask{}, &batchv1.Job{}},
			Start: func(process context.Context, c client.Client) func(context.Context) error {
				runner := startCalls(process)
				r := inspectionReconciler(c, member, runner, events.NewFakeRecorder(1000))

				return func(ctx context.Context) error {
					_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: key})
					Eventually(func() bool {
						_, isRunning, _ := runner.Outcome("task-uid")

						return isRunning
					}).WithPolling(time.Millisecond).Should(BeFalse())

					return err
				}
			},
			Others: func(ctx context.Context, c client.Client) error { // the Job ends once it was readable
				list := &batchv1.JobList{}
				if err := c.List(ctx, list); err != nil || len(list.Items) == 0 {
					return err
				}
				job := &list.Items[0]
				switch {
				case job.Status.Ready == nil:
					job.Status.Ready = new(int32(1))
				case len(job.Status.Conditions) > 0:
					return nil
				default:
					job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
				}

				return c.Status().Update(ctx, job)
			},
			Kinds: []client.ObjectList{&druidv1alpha1.EtcdOpsTaskList{}, &batchv1.JobList{}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Failures).To(BeEmpty())
		Expect(result.Objects).To(ContainElement(ContainSubstring("Succeeded")))
	})
})
