// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package restoredrill_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/restoredrill"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	fakeetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	fakesidecar "github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/crash"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// record is the record of an Etcd that is rolled out and has a store.
const record = `{"version":1,"accepted":{"generation":1}}`

// oneMember observes a healthy cluster of one member at revision 7. Its sidecar uses the store.
type oneMember struct {
	store *fakesidecar.Store
	etcd  *fakeetcd.Cluster
}

func (oneMember) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	return etcdcluster.Observation{
		State: state.State{Accepted: &state.Accepted{Generation: 1, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {BackupRestore: "sidecar"}}}}},
		Pods:  []etcdcluster.Pod{{Name: "main-0", UID: "pod", Ready: true, ContainersReady: true}},
		Etcd: etcdcluster.EtcdResponses{
			Queried: true, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1, ClusterID: 1, Revision: 7, QuorumRevision: 7}},
			MemberList: []etcdcluster.ListedMember{{ID: 1, Name: "main-0"}},
		},
	}
}

func (oneMember) HostPath(context.Context, string, backupstore.Store) (string, error) { return "", nil }

func (o oneMember) Member(ctx context.Context, _ *druidv1alpha1.Etcd, _ etcdcluster.Pod) (etcdclient.Client, error) {
	return o.etcd.Connect(ctx, etcdclient.Target{Address: "main-0:2379"})
}

func (o oneMember) Sidecar(context.Context, *druidv1alpha1.Etcd, etcdcluster.Pod) (sidecar.Client, error) {
	return o.store.Connect(sidecar.Target{})
}

// started is a context that reports when Done is called for the first time.
type started struct {
	context.Context

	onDone func()
}

// Done implements context.Context.
func (s started) Done() <-chan struct{} {
	s.onDone()

	return s.Context.Done()
}

// process runs the controllers of tasks and of restore drills.
func process(ctx context.Context, c client.Client, o oneMember) func(context.Context) error {
	runner, isStarted := calls.NewRunner[opstask.Outcome](), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		_ = runner.Start(started{Context: ctx, onDone: sync.OnceFunc(func() { close(isStarted) })})
	}()
	<-isStarted
	clock := testclock.NewFakePassiveClock(now)
	tasks := &opstask.Reconciler{
		Client: c, Reader: c, Observer: o, Calls: runner, RequeueInterval: time.Second, JobDeadline: time.Hour, Clock: clock, Recorder: events.NewFakeRecorder(1000),
		Drills: opstask.Drills{EtcdHelper: target.EtcdHelper{Image: "helper"}},
	}
	drills := &restoredrill.Reconciler{Client: c, Reader: c, Config: restoredrill.Config{Limit: 1}, Clock: clock, Recorder: events.NewFakeRecorder(1000)}

	return func(ctx context.Context) error {
		all := &druidv1alpha1.EtcdOpsTaskList{}
		errs := []error{c.List(ctx, all)}
		for _, task := range all.Items {
			_, err := tasks.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&task)})
			errs = append(errs, err)
			Eventually(func() bool {
				_, isRunning, _ := runner.Outcome(task.UID)

				return isRunning
			}).WithPolling(time.Millisecond).WithTimeout(10 * time.Second).Should(BeFalse())
		}
		_, err := drills.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "main"}})

		return errors.Join(append(errs, err)...)
	}
}

// endJobs lets Jobs end. A Job fails with the exit code of the container replay until there is another full snapshot.
func endJobs(ctx context.Context, c client.Client, exitCode int32, isFixed bool) error {
	jobs := &batchv1.JobList{}
	if err := c.List(ctx, jobs); err != nil {
		return err
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if len(job.Status.Conditions) > 0 {
			continue
		}
		condition := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}
		if isFixed {
			exitCode = 0
		}
		if exitCode != 0 {
			condition.Type, condition.Reason = batchv1.JobFailed, "PodFailurePolicy"
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: job.Name + "-" + string(job.UID), Labels: job.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "replay", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exitCode, Message: "revisions 5 to 6 are missing",
		}}}}
		if err := c.Create(ctx, pod); err != nil {
			return err
		}
		job.Status.Conditions = []batchv1.JobCondition{condition}
		if err := c.Status().Update(ctx, job); err != nil {
			return err
		}
	}

	return nil
}

var _ = Describe("A restore drill whose operator is killed at any of its writes", func() {
	// The fake client reads all kinds of the scheme for each patch. One with few kinds is twice as fast.
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{druidv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}

	run := func(ctx context.Context, exitCode int32) crash.Result {
		GinkgoHelper()
		var o oneMember
		result, err := crash.Run(ctx, crash.Case{
			Scheme: scheme,
			Objects: func() []client.Object {
				o = oneMember{store: fakesidecar.NewStore(func() time.Time { return now }), etcd: fakeetcd.NewCluster(1)}
				o.etcd.AddMember(1, "main-0", "main-0:2379")
				for o.etcd.Revision() < 7 {
					Expect(o.etcd.Write()).To(Succeed())
				}
				o.store.SetRevision(4)
				client0, err := o.store.Connect(sidecar.Target{})
				Expect(err).NotTo(HaveOccurred())
				Expect(client0.FullSnapshot(ctx)).Error().NotTo(HaveOccurred())
				o.store.SetRevision(7)
				etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: "etcd-uid", Generation: 1}}
				etcd.Spec.Replicas, etcd.Spec.Labels = 1, map[string]string{"role": "main"}
				etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
					Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: "etcd-main", SecretRef: &corev1.SecretReference{Name: "store"},
				}
				etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: "True"}, {Type: "AllMembersReady", Status: "True"}}
				mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "druid-main", Annotations: map[string]string{
					"etcd-druid.extensions.gardener.cloud/state": record,
					"etcd-druid.extensions.gardener.cloud/store": `{"provider":"S3","container":"bucket","prefix":"etcd-main"}`,
				}}}
				task := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "drill", UID: "task-uid", CreationTimestamp: metav1.NewTime(now)}}
				task.Spec.EtcdName, task.Spec.Config.RestoreDrill = new("main"), &druidv1alpha1.RestoreDrillConfig{}

				return []client.Object{etcd, mr, task}
			},
			Status: []client.Object{&druidv1alpha1.Etcd{}, &batchv1.Job{}, &druidv1alpha1.EtcdOpsTask{}},
			Start:  func(ctx context.Context, c client.Client) func(context.Context) error { return process(ctx, c, o) },
			Others: func(ctx context.Context, c client.Client) error {
				tasks := &druidv1alpha1.EtcdOpsTaskList{}
				if err := c.List(ctx, tasks); err != nil {
					return err
				}

				return endJobs(ctx, c, exitCode, slices.ContainsFunc(tasks.Items, func(task druidv1alpha1.EtcdOpsTask) bool {
					return task.Spec.Config.OnDemandSnapshot != nil && ptr.Deref(task.Status.State, "") == "Succeeded"
				}))
			},
			Kinds: []client.ObjectList{&resourcesv1alpha1.ManagedResourceList{}, &batchv1.JobList{}, &druidv1alpha1.EtcdOpsTaskList{}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Failures).To(BeEmpty())
		Expect(result.Objects).NotTo(BeEmpty())

		return result
	}

	It("proves the store", func(ctx SpecContext) {
		result := run(ctx, 0)
		Expect(result.Objects).To(ContainElement(And(ContainSubstring("ManagedResource"), ContainSubstring(`RestoreProven`))))
		Expect(result.Objects).To(ContainElement(And(ContainSubstring("EtcdOpsTask"), ContainSubstring("Succeeded"), ContainSubstring("The snapshots contain the data of revision 7"))))
	})

	It("takes a full snapshot after a fault, and repeats the drill", func(ctx SpecContext) {
		result := run(ctx, 7)
		Expect(result.Objects).To(ContainElement(And(ContainSubstring("EtcdOpsTask"), ContainSubstring("Failed"), ContainSubstring("EventsMissing: revisions 5 to 6 are missing"))))
		Expect(result.Objects).To(ContainElement(And(ContainSubstring("EtcdOpsTask"), ContainSubstring("main-drill-snapshot-task-uid"), ContainSubstring("Succeeded"))))
		Expect(result.Objects).To(ContainElement(And(ContainSubstring("EtcdOpsTask"), ContainSubstring("main-restore-drill-task-uid"), ContainSubstring("Succeeded"))))
		Expect(result.Objects).To(ContainElement(And(ContainSubstring("ManagedResource"), ContainSubstring("RestoreProven"), Not(ContainSubstring("EventsMissing")))))
	})
})
