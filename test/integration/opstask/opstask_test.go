// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"errors"
	"fmt"
	"time"

	upstreamcrds "github.com/gardener/etcd-druid/api/core/v1alpha1/crds"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	fakeetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	fakesidecar "github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar/fake"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

var _ = Describe("EtcdOpsTask", func() {
	BeforeEach(func() {
		members, store, lastMember = fakeetcd.NewCluster(7), fakesidecar.NewStore(time.Now), 0
	})

	It("takes a full snapshot and reports it", func() {
		etcd := newEtcd(1)
		store.SetRevision(42)
		startOperator()
		task := newTask(etcd, "full", full())
		Eventually(stateOf(task)).Should(Equal("Succeeded"))
		Expect(task.Status.Snapshot.Name).To(HavePrefix("Full-00000000-00000042-"))
		Expect(task.Status.Snapshot.Revision).To(BeEquivalentTo(42))
		Expect(task.Status.Snapshot.SizeBytes).To(HaveValue(BeEquivalentTo(4096)))
		Expect(task.Status.Snapshot.CreatedAt).NotTo(BeNil())
		Expect(task.Status.StartedAt).NotTo(BeNil())
		Expect(task.Status.LastErrors).To(BeEmpty())
		Expect(task.Status.LastOperation.State).To(BeEquivalentTo("Completed"))
		Expect(task.Status.LastOperation.Description).To(And(ContainSubstring("Full-00000000-00000042-"), ContainSubstring("revision 42"), ContainSubstring("4096 bytes")))
		Expect(task.Finalizers).To(ContainElement("druid.gardener.cloud/etcd-ops-task"))
	})

	It("takes a final snapshot, a delta snapshot, and no delta snapshot if nothing has changed", func() {
		etcd := newEtcd(1)
		startOperator()
		final := newTask(etcd, "final", druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "full", IsFinal: new(true)}})
		Eventually(stateOf(final)).Should(Equal("Succeeded"))
		client, err := store.Connect(sidecar.Target{})
		Expect(err).NotTo(HaveOccurred())
		latest, err := client.LatestSnapshots(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(latest.Full.Final).To(BeTrue())

		nothing := newTask(etcd, "nothing", delta())
		Eventually(stateOf(nothing)).Should(Equal("Succeeded"))
		Expect(nothing.Status.Snapshot).To(BeNil())
		Expect(nothing.Status.LastOperation.Description).To(ContainSubstring("Nothing has changed"))

		store.SetRevision(9)
		some := newTask(etcd, "some", delta())
		Eventually(stateOf(some)).Should(Equal("Succeeded"))
		Expect(some.Status.Snapshot.Name).To(HavePrefix("Incr-"))
		Expect(some.Status.Snapshot.Revision).To(BeEquivalentTo(9))
	})

	It("is executed after older tasks across a restart of the operator, and takes its snapshot once", func() {
		etcd := newEtcd(1)
		release := store.Hold()
		stop := startOperator()
		var tasks []*druidv1alpha1.EtcdOpsTask
		for i := range 3 {
			tasks = append(tasks, newTask(etcd, fmt.Sprintf("task-%d", i), full()))
		}
		Eventually(store.SnapshotRequests).Should(Equal(1))
		Eventually(operationOf(tasks[2])).Should(Equal("Waiting for EtcdOpsTask task-0 to end"))
		Eventually(stateOf(tasks[1])).Should(Equal("Pending"))
		Consistently(store.SnapshotRequests).Should(Equal(1), "the others wait")

		stop()
		Expect(stateOf(tasks[0])()).To(Equal("InProgress"))
		release()
		members.Write() //nolint:errcheck // there is a quorum
		startOperator()
		for _, task := range tasks {
			Eventually(stateOf(task)).Should(Equal("Succeeded"))
		}
		Expect(tasks[0].Status.LastErrors).To(BeEmpty(), "a restart is not a failure")
		Expect(tasks[0].Status.StartedAt.Time).To(BeTemporally("<=", tasks[1].Status.StartedAt.Time))
		Expect(tasks[1].Status.StartedAt.Time).To(BeTemporally("<=", tasks[2].Status.StartedAt.Time))
		Expect(store.SnapshotRequests()).To(Equal(4), "the interrupted request, and one request for each task")
	})

	It("adopts a snapshot whose response was lost", func() {
		etcd := newEtcd(1)
		Expect(members.Write()).To(Succeed())
		store.SetRevision(2)
		release := store.Hold()
		stop := startOperator()
		task := newTask(etcd, "full", full())
		Eventually(store.SnapshotRequests).Should(Equal(1))
		stop()
		release()

		other, err := store.Connect(sidecar.Target{})
		Expect(err).NotTo(HaveOccurred())
		taken, err := other.FullSnapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		startOperator()
		Eventually(stateOf(task)).Should(Equal("Succeeded"))
		Expect(task.Status.Snapshot.Name).To(Equal(taken.Name))
		Expect(task.Status.Snapshot.SizeBytes).To(HaveValue(BeEquivalentTo(4096)))
		Expect(store.SnapshotRequests()).To(Equal(2), "the interrupted request, and the request of the test")
	})

	It("does not wait for tasks of another Etcd", func() {
		etcd, other := newEtcd(1), newEtcd(1)
		release := store.Hold()
		defer release()
		startOperator()
		newTask(etcd, "first", full())
		newTask(other, "second", full())
		Eventually(store.SnapshotRequests).Should(Equal(2))
	})

	It("retries a failed attempt after a backoff, and succeeds", func() {
		etcd := newEtcd(1)
		store.Fail(fmt.Errorf("taking a full snapshot: %w: the store is full", sidecar.ErrRefused))
		startOperator()
		task := newTask(etcd, "full", full())
		Eventually(func() []druidv1alpha1.LastError { stateOf(task)(); return task.Status.LastErrors }).Should(HaveLen(1))
		Expect(task.Status.LastErrors[0].Code).To(BeEquivalentTo("ERR_CREATE_SNAPSHOT"))
		Expect(task.Status.LastErrors[0].Description).To(ContainSubstring("the store is full"))
		Expect(store.SnapshotRequests()).To(Equal(1))
		store.Fail(nil)
		Eventually(stateOf(task)).Should(Equal("Succeeded"))
		Expect(store.SnapshotRequests()).To(Equal(2))
	})

	It("fails after three attempts", func() {
		etcd := newEtcd(1)
		store.Fail(fmt.Errorf("%w: refused", sidecar.ErrUnreachable))
		startOperator()
		task := newTask(etcd, "full", full())
		Eventually(stateOf(task)).WithTimeout(time.Minute).Should(Equal("Failed"))
		Expect(task.Status.LastErrors).To(HaveLen(3))
		Expect(task.Status.LastErrors[2].Code).To(BeEquivalentTo("ERR_EXECUTE_HTTP_REQUEST"))
		Expect(task.Status.LastOperation.State).To(BeEquivalentTo("Failed"))
	})

	It("waits for an Etcd that is not ready", func() {
		etcd := newEtcd(1)
		setReady(etcd, druidv1alpha1.ConditionFalse)
		startOperator()
		task := newTask(etcd, "full", full())
		Eventually(operationOf(task)).Should(Equal("Waiting for the condition Ready of the Etcd to be True"))
		Consistently(store.SnapshotRequests).Should(BeZero())
		setReady(etcd, druidv1alpha1.ConditionTrue)
		Eventually(stateOf(task)).Should(Equal("Succeeded"))
	})

	It("is rejected if it can never succeed, and reports the reason", func() {
		etcd := newEtcd(1, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store = nil })
		startOperator()
		task := newTask(etcd, "full", full())
		Eventually(stateOf(task)).Should(Equal("Rejected"))
		Expect(task.Status.LastErrors).To(ConsistOf(HaveField("Code", druidv1alpha1.ErrorCode("ERR_BACKUP_NOT_ENABLED"))))
		Expect(task.Status.StartedAt).To(BeNil())
		orphan := newTask(etcd, "orphan", full(), func(task *druidv1alpha1.EtcdOpsTask) { task.Spec.EtcdName = new("other") })
		Eventually(stateOf(orphan)).Should(Equal("Rejected"))
	})

	It("is deleted after its time to live, and cancels its request if a user deletes it earlier", func() {
		etcd := newEtcd(1)
		startOperator()
		short := newTask(etcd, "short", delta(), func(task *druidv1alpha1.EtcdOpsTask) { task.Spec.TTLSecondsAfterFinished = new(int32(1)) })
		gone := func(task *druidv1alpha1.EtcdOpsTask) func() bool {
			return func() bool { return apierrors.IsNotFound(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)) }
		}
		Eventually(gone(short)).Should(BeTrue())

		release := store.Hold()
		defer release()
		before := store.SnapshotRequests()
		running := newTask(etcd, "running", full())
		Eventually(store.SnapshotRequests).Should(Equal(before + 1))
		next := newTask(etcd, "next", full())
		Expect(env.Client.Delete(ctx, running)).To(Succeed())
		Eventually(gone(running)).Should(BeTrue())
		Eventually(stateOf(next)).Should(Equal("InProgress"))
	})

	It("defragments the followers first and the leader last", func() {
		etcd := newEtcd(3)
		var order []uint64
		members.OnDefragment(func(id uint64) error {
			order = append(order, id)
			Expect(locks.TryLock(etcd.UID, "etcd")).To(BeFalse(), "the operator replaces no member meanwhile")

			return nil
		})
		Expect(locks.TryLock(etcd.UID, "etcd")).To(BeTrue())
		startOperator()
		task := newTask(etcd, "defragment", druidv1alpha1.EtcdOpsTaskConfig{Defragmentation: &druidv1alpha1.DefragmentationConfig{}})
		Eventually(stateOf(task)).Should(Equal("InProgress"))
		Consistently(stateOf(task)).Should(Equal("InProgress"))
		locks.Unlock(etcd.UID, 0)
		Eventually(stateOf(task)).Should(Equal("Succeeded"))
		Expect(order).To(Equal([]uint64{2, 3, 1}))
		Expect(members.Leader()).To(BeEquivalentTo(2), "the leader has transferred its leadership before its defragmentation")
		Expect(task.Status.Members).To(HaveLen(3))
		Expect(task.Status.Members[2].Name).To(Equal("test-0"))
		Expect(task.Status.Members[2].SizeBytesBefore).To(BeEquivalentTo(8192))
		Expect(task.Status.Members[2].SizeBytesAfter).To(BeEquivalentTo(4096))
		Expect(task.Status.LastOperation.Description).To(ContainSubstring("test-0 stalled for "))
	})

	It("stops at the first member that cannot be defragmented, and retries", func() {
		etcd := newEtcd(1)
		failures := 1
		members.OnDefragment(func(uint64) error {
			if failures--; failures >= 0 {
				return errors.New("no space left")
			}
			return nil
		})
		startOperator()
		task := newTask(etcd, "defragment", druidv1alpha1.EtcdOpsTaskConfig{Defragmentation: &druidv1alpha1.DefragmentationConfig{}})
		Eventually(stateOf(task)).Should(Equal("Succeeded"))
		Expect(task.Status.LastErrors).To(ConsistOf(HaveField("Code", druidv1alpha1.ErrorCode("ERR_DEFRAGMENT"))))
	})

	DescribeTable("ends when its compaction Job ends",
		func(recorded, state string, conditionType batchv1.JobConditionType) {
			etcd := newEtcd(1)
			other, err := store.Connect(sidecar.Target{})
			Expect(err).NotTo(HaveOccurred())
			_, err = other.FullSnapshot(ctx)
			Expect(err).NotTo(HaveOccurred())
			startOperator()
			task := newTask(etcd, "compact", druidv1alpha1.EtcdOpsTaskConfig{Compaction: &druidv1alpha1.CompactionConfig{}})
			Eventually(stateOf(task)).Should(Equal("InProgress"))
			simulateJob(etcd, task, recorded, conditionType)
			Eventually(stateOf(task)).Should(Equal(state))
			if state == "Succeeded" {
				Expect(task.Status.Snapshot.Name).To(HavePrefix("Full-"))
			} else {
				Expect(task.Status.LastErrors).To(ConsistOf(HaveField("Code", druidv1alpha1.ErrorCode("ERR_COMPACT_SNAPSHOTS"))))
			}
		},
		Entry("successfully", "None", "Succeeded", batchv1.JobComplete),
		Entry("with an error", "DeadlineExceeded", "Failed", batchv1.JobFailed),
	)

	DescribeTable("reports what is missing for a compaction Job", func(record, missing string) {
		etcd := newEtcd(1)
		Expect(env.Client.Create(ctx, &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: etcd.Namespace, Name: "druid-" + etcd.Name, Labels: map[string]string{"origin": "gardener-extension-etcd-druid"},
				Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/state": record},
			},
			Spec: resourcesv1alpha1.ManagedResourceSpec{Class: new("seed"), SecretRefs: []corev1.LocalObjectReference{{Name: "x"}}},
		})).To(Succeed())
		startOperator()
		task := newTask(etcd, "compact", druidv1alpha1.EtcdOpsTaskConfig{Compaction: &druidv1alpha1.CompactionConfig{}})
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
			g.Expect(task.Status.LastOperation).To(HaveValue(HaveField("Description", ContainSubstring(missing))))
		}).Should(Succeed())
	},
		Entry("before the Etcd is rolled out", `{"version":1}`, "Waiting for the Etcd to be rolled out by this operator"),
		Entry("after acknowledged writes are lost", `{"version":1,"accepted":{"generation":1},"evidence":{"highestRevision":42,"rolledBack":{"revision":41,"at":"2026-01-01T00:00:00Z"}}}`,
			"Waiting for the condition RevisionConfirmed of the Etcd to be True"),
		Entry("while snapshots may contain writes that a user has given up", `{"version":1,"accepted":{"generation":1},"evidence":{"highestRevision":41,"acceptedRevision":41,"lostRevision":42}}`,
			"Waiting for a full snapshot with a higher revision than 42"),
	)

	It("fails if its Job has succeeded but the store contains no full snapshot", func() {
		etcd := newEtcd(1)
		startOperator()
		task := newTask(etcd, "compact", druidv1alpha1.EtcdOpsTaskConfig{Compaction: &druidv1alpha1.CompactionConfig{}})
		Eventually(stateOf(task)).Should(Equal("InProgress"))
		simulateJob(etcd, task, "None", batchv1.JobComplete)
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
			g.Expect(task.Status.LastErrors).To(ContainElement(And(
				HaveField("Code", druidv1alpha1.ErrorCode("ERR_COMPACT_SNAPSHOTS")),
				HaveField("Description", ContainSubstring("the store holds no full snapshot")))))
		}).Should(Succeed())
	})

	DescribeTable("is created for an annotation, which the operator then removes",
		func(kind string, has func(druidv1alpha1.EtcdOpsTaskConfig) bool) {
			etcd := newEtcd(1, fixture.WithAnnotation("druid.gardener.cloud/run-task", kind))
			startOperator()
			tasks := &druidv1alpha1.EtcdOpsTaskList{}
			Eventually(func(g Gomega) {
				g.Expect(env.Client.List(ctx, tasks, client.InNamespace(etcd.Namespace))).To(Succeed())
				g.Expect(tasks.Items).To(HaveLen(1))
				g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
				g.Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/run-task"))
			}).Should(Succeed())
			task := &tasks.Items[0]
			Expect(has(task.Spec.Config)).To(BeTrue())
			Expect(metav1.IsControlledBy(task, etcd)).To(BeTrue())
			if kind != "compaction" {
				Eventually(stateOf(task)).Should(Equal("Succeeded"))
			}
		},
		Entry("for a full snapshot", "full-snapshot", func(c druidv1alpha1.EtcdOpsTaskConfig) bool { return c.OnDemandSnapshot.Type == "full" }),
		Entry("for a delta snapshot", "delta-snapshot", func(c druidv1alpha1.EtcdOpsTaskConfig) bool { return c.OnDemandSnapshot.Type == "delta" }),
		Entry("for a compaction", "compaction", func(c druidv1alpha1.EtcdOpsTaskConfig) bool { return c.Compaction != nil }),
		Entry("for a defragmentation", "defragmentation", func(c druidv1alpha1.EtcdOpsTaskConfig) bool { return c.Defragmentation != nil }),
	)

	It("is created for an annotation even if the CustomResourceDefinition of etcd-druid prunes fields, and reports its result in the message", func() {
		older, err := upstreamcrds.GetAll("1.34")
		Expect(err).NotTo(HaveOccurred())
		install(older["etcdopstasks.druid.gardener.cloud"])
		DeferCleanup(func() { install(crds.All()["etcdopstasks.druid.gardener.cloud"]) })
		Eventually(func() error {
			probe := &druidv1alpha1.EtcdOpsTask{
				ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: "default"},
				Spec:       druidv1alpha1.EtcdOpsTaskSpec{EtcdName: new("test"), Config: druidv1alpha1.EtcdOpsTaskConfig{Compaction: &druidv1alpha1.CompactionConfig{}}},
			}
			return env.Client.Create(ctx, probe, client.DryRunAll)
		}).Should(Satisfy(apierrors.IsInvalid), "the older CustomResourceDefinition is effective")

		etcd := newEtcd(1, fixture.WithAnnotation("druid.gardener.cloud/run-task", "defragmentation"))
		startOperator()
		tasks := &druidv1alpha1.EtcdOpsTaskList{}
		Eventually(func(g Gomega) {
			g.Expect(env.Client.List(ctx, tasks, client.InNamespace(etcd.Namespace))).To(Succeed())
			g.Expect(tasks.Items).To(HaveLen(1))
		}).Should(Succeed())
		task := &tasks.Items[0]
		Eventually(stateOf(task)).Should(Equal("Succeeded"))
		Expect(task.Status.LastOperation.Description).To(And(HavePrefix("Defragmented: test-0 stalled for "), HaveSuffix("from 8192 to 4096 bytes")))
		Expect(task.Status.Members).To(BeEmpty(), "the API server prunes the field")
		Expect(store.SnapshotRequests()).To(BeZero(), "the task takes no snapshot")
	})

	It("is counted by its kind and its final state, and its metrics are removed with its Etcd", func() {
		etcd := newEtcd(1)
		startOperator()
		metric := func(name, kind, state string) func() float64 {
			return func() float64 {
				return environment.Metric(name, "etcd_namespace="+etcd.Namespace, "etcd=test", "kind="+kind, "state="+state)
			}
		}
		store.SetRevision(42)
		for _, name := range []string{"first", "second"} {
			Eventually(stateOf(newTask(etcd, name, full()))).Should(Equal("Succeeded"))
		}
		orphan := newTask(etcd, "orphan", full(), func(task *druidv1alpha1.EtcdOpsTask) { task.Spec.EtcdName = new("other") })
		Eventually(stateOf(orphan)).Should(Equal("Rejected"))
		before := etcd.DeepCopy()
		etcd.Spec.Backup.Store = nil
		Expect(env.Client.Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
		Eventually(stateOf(newTask(etcd, "rejected", delta()))).Should(Equal("Rejected"))

		Eventually(metric("etcd_druid_tasks_total", "full-snapshot", "Succeeded")).Should(Equal(2.0))
		Expect(metric("etcd_druid_task_duration_seconds", "full-snapshot", "Succeeded")()).To(Equal(2.0))
		Eventually(metric("etcd_druid_tasks_total", "delta-snapshot", "Rejected")).Should(Equal(1.0))
		Expect(metric("etcd_druid_task_duration_seconds", "delta-snapshot", "Rejected")()).To(Equal(-1.0), "the task never started")
		Expect(environment.Metric("etcd_druid_tasks_total", "etcd_namespace="+etcd.Namespace, "etcd=other", "kind=full-snapshot", "state=Rejected")).To(Equal(-1.0), "a metric of a missing Etcd would never be removed")

		Expect(env.Client.Delete(ctx, etcd)).To(Succeed())
		Eventually(metric("etcd_druid_tasks_total", "full-snapshot", "Succeeded")).Should(Equal(-1.0))
		Eventually(metric("etcd_druid_task_duration_seconds", "full-snapshot", "Succeeded")).Should(Equal(-1.0))
		Eventually(metric("etcd_druid_tasks_total", "delta-snapshot", "Rejected")).Should(Equal(-1.0))
	})

	It("is not created for an unknown annotation value", func() {
		etcd := newEtcd(1, fixture.WithAnnotation("druid.gardener.cloud/run-task", "dance"))
		startOperator()
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			g.Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/run-task"))
		}).Should(Succeed())
		tasks := &druidv1alpha1.EtcdOpsTaskList{}
		Expect(env.Client.List(ctx, tasks, client.InNamespace(etcd.Namespace))).To(Succeed())
		Expect(tasks.Items).To(BeEmpty())
	})
})

// install updates a CustomResourceDefinition.
func install(content string) {
	GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.UnmarshalStrict([]byte(content), crd)).To(Succeed())
	_, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}})
	Expect(err).NotTo(HaveOccurred())
}

// simulateJob simulates the compaction controller. It creates the Job of the task, ends it, and records its result.
func simulateJob(etcd *druidv1alpha1.Etcd, task *druidv1alpha1.EtcdOpsTask, recorded string, conditionType batchv1.JobConditionType) {
	GinkgoHelper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "test-compactor", Namespace: etcd.Namespace,
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test", "app.kubernetes.io/component": "etcd-snapshot-compaction-job"},
			Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/task": string(task.UID), "etcd-druid.extensions.gardener.cloud/attempt": "1"},
		},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "x", Image: "x"}},
		}}},
	}
	Expect(env.Client.Create(ctx, job)).To(Succeed())
	now, cause := metav1.Now(), batchv1.JobFailureTarget
	job.Status.StartTime = &now
	if conditionType == batchv1.JobComplete {
		cause = batchv1.JobSuccessCriteriaMet
		job.Status.CompletionTime = &now
	}
	for _, one := range []batchv1.JobConditionType{cause, conditionType} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: one, Status: corev1.ConditionTrue, Reason: recorded, LastTransitionTime: now, LastProbeTime: now})
	}
	Expect(env.Client.Status().Update(ctx, job)).To(Succeed())
	Consistently(stateOf(task)).Should(Equal("InProgress"), "the result of the Job is not recorded yet")
	job.Annotations["etcd-druid.extensions.gardener.cloud/recorded"] = recorded
	Expect(env.Client.Update(ctx, job)).To(Succeed())
}
