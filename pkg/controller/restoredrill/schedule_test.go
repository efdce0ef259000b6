// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package restoredrill_test

import (
	"context"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/restoredrill"
)

// rolledOut returns an Etcd that is rolled out, and its ManagedResource.
func rolledOut(name string, annotations map[string]string, drills string) []client.Object {
	etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID(name), Generation: 1, Annotations: annotations}}
	etcd.Spec.Replicas, etcd.Spec.Labels = 1, map[string]string{"role": name}
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
		Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: name, SecretRef: &corev1.SecretReference{Name: "store"},
	}
	etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: "True"}, {Type: "AllMembersReady", Status: "True"}}
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "druid-" + name, Annotations: map[string]string{
		"etcd-druid.extensions.gardener.cloud/state": record,
		"etcd-druid.extensions.gardener.cloud/store": `{"provider":"S3","container":"bucket","prefix":"` + name + `"}`,
	}}}
	if drills != "" {
		mr.Annotations["etcd-druid.extensions.gardener.cloud/restore-drill"] = strings.ReplaceAll(drills, "PREFIX", name)
	}

	return []client.Object{etcd, mr}
}

// scheduledTask is a scheduled drill of the Etcd, with an attempt.
func scheduledTask(etcd client.Object) *druidv1alpha1.EtcdOpsTask {
	task := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{
		Namespace: etcd.GetNamespace(), Name: "scheduled", UID: "scheduled", Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/scheduled": "true"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(etcd, druidv1alpha1.SchemeGroupVersion.WithKind("Etcd"))},
	}}
	task.Spec.EtcdName, task.Spec.Config.RestoreDrill = new(etcd.GetName()), &druidv1alpha1.RestoreDrillConfig{}
	task.Status.State = new(druidv1alpha1.TaskStateInProgress)
	task.Status.LastOperation = &druidv1alpha1.LastOperation{Description: "Attempt 1 of 3"}

	return task
}

var _ = Describe("The schedule of restore drills", func() {
	// due is the record of an Etcd whose first drill is due: it has a schedule for longer than the period.
	const due = `{"period":"1h0m0s","since":"2026-01-01T10:00:00Z","store":"S3 container \"bucket\" prefix \"PREFIX\""}`

	reconcilerFor := func(funcs interceptor.Funcs, objects ...client.Object) (*restoredrill.Reconciler, *events.FakeRecorder) {
		c := fake.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(objects...).Build()
		recorder := events.NewFakeRecorder(100)

		return &restoredrill.Reconciler{
			Client: interceptor.NewClient(c, funcs), Reader: c, Config: restoredrill.Config{Period: time.Hour, Limit: 1},
			Clock: testclock.NewFakePassiveClock(now), Recorder: recorder,
		}, recorder
	}
	reconcileAll := func(ctx context.Context, r *restoredrill.Reconciler, names ...string) {
		GinkgoHelper()
		for _, name := range names {
			Expect(r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: name}})).Error().NotTo(HaveOccurred())
		}
	}
	tasks := func(ctx context.Context, r *restoredrill.Reconciler) []druidv1alpha1.EtcdOpsTask {
		GinkgoHelper()
		list := &druidv1alpha1.EtcdOpsTaskList{}
		Expect(r.Reader.List(ctx, list)).To(Succeed())

		return list.Items
	}

	It("limits the drills of all Etcds, also those that the cache does not show yet", func(ctx SpecContext) {
		stale := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*druidv1alpha1.EtcdOpsTaskList); is {
				return nil
			}

			return c.List(ctx, list, options...)
		}}
		r, _ := reconcilerFor(stale, append(rolledOut("a", nil, due), rolledOut("b", nil, due)...)...)
		reconcileAll(ctx, r, "a", "b")
		Expect(tasks(ctx, r)).To(ConsistOf(HaveField("Spec.EtcdName", HaveValue(Equal("a")))))

		r, _ = reconcilerFor(interceptor.Funcs{}, append(rolledOut("a", nil, due), rolledOut("b", nil, due)...)...)
		r.Config.Limit = 2
		reconcileAll(ctx, r, "a", "b", "a", "b")
		Expect(tasks(ctx, r)).To(HaveLen(2))
	})

	It("creates a task that a CustomResourceDefinition without the kind accepts", func(ctx SpecContext) {
		pruning := interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if task, is := object.(*druidv1alpha1.EtcdOpsTask); is && task.Spec.Config.OnDemandSnapshot == nil {
				return apierrors.NewInvalid(druidv1alpha1.SchemeGroupVersion.WithKind("EtcdOpsTask").GroupKind(), task.Name, nil)
			}

			return c.Create(ctx, object, options...)
		}}
		r, _ := reconcilerFor(pruning, rolledOut("a", nil, due)...)
		reconcileAll(ctx, r, "a")
		Expect(tasks(ctx, r)).To(ConsistOf(And(
			HaveField("Annotations", HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/task-kind", "restore-drill")),
			HaveField("Spec.Config.OnDemandSnapshot.Type", BeEquivalentTo("delta")),
		)))
	})

	DescribeTable("records the period",
		func(ctx SpecContext, annotation, period string, message string) {
			r, recorder := reconcilerFor(interceptor.Funcs{}, rolledOut("a", map[string]string{"druid.gardener.cloud/restore-drill-period": annotation}, due)...)
			reconcileAll(ctx, r, "a")
			mr := &resourcesv1alpha1.ManagedResource{}
			Expect(r.Reader.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-a"}, mr)).To(Succeed())
			Expect(mr.Annotations["etcd-druid.extensions.gardener.cloud/restore-drill"]).To(ContainSubstring(period))
			if message == "" {
				Expect(recorder.Events).NotTo(Receive(ContainSubstring("InvalidPeriod")))
			} else {
				Expect(recorder.Events).To(Receive(And(ContainSubstring("InvalidPeriod"), ContainSubstring(message))))
			}
		},
		Entry("of an annotation", "24h", `"period":"24h0m0s"`, ""),
		Entry("0 of an annotation", "0s", `{}`, ""),
		Entry("of the configuration instead of text", "daily", `"period":"1h0m0s"`, "set a duration"),
		Entry("of the configuration instead of a negative duration", "-1h", `"period":"1h0m0s"`, "set a duration"),
		Entry("of the configuration instead of a second", "1s", `"period":"1h0m0s"`, "set a duration"),
		Entry("of the configuration instead of less than an hour", "59m", `"period":"1h0m0s"`, "of at least 1h0m0s"),
	)

	It("reports an invalid period once", func(ctx SpecContext) {
		r, recorder := reconcilerFor(interceptor.Funcs{}, rolledOut("a", map[string]string{"druid.gardener.cloud/restore-drill-period": "daily"}, "")...)
		reconcileAll(ctx, r, "a", "a", "a")
		Expect(recorder.Events).To(Receive(ContainSubstring("InvalidPeriod")))
		Expect(recorder.Events).NotTo(Receive(ContainSubstring("InvalidPeriod")))
	})

	DescribeTable("does not limit the drills of the fleet by tasks",
		func(ctx SpecContext, change func(*druidv1alpha1.EtcdOpsTask)) {
			other := rolledOut("b", nil, due)
			task := scheduledTask(other[0])
			change(task)
			r, _ := reconcilerFor(interceptor.Funcs{}, append(rolledOut("a", nil, due), append(other, task)...)...)
			reconcileAll(ctx, r, "a")
			Expect(tasks(ctx, r)).To(ContainElement(HaveField("Spec.EtcdName", HaveValue(Equal("a")))))
		},
		Entry("of users", func(task *druidv1alpha1.EtcdOpsTask) { task.Annotations = nil }),
		Entry("of users who set the annotation", func(task *druidv1alpha1.EtcdOpsTask) { task.OwnerReferences = nil }),
		Entry("of another namespace", func(task *druidv1alpha1.EtcdOpsTask) { task.Namespace = "tenant" }),
		Entry("that have not started", func(task *druidv1alpha1.EtcdOpsTask) { task.Status.State = nil }),
		Entry("that wait for their cluster", func(task *druidv1alpha1.EtcdOpsTask) {
			task.Status.LastOperation.Description = "Waiting for the condition Ready of the Etcd to be True"
		}),
		Entry("that have ended", func(task *druidv1alpha1.EtcdOpsTask) { task.Status.State = new(druidv1alpha1.TaskStateFailed) }),
	)

	It("limits the drills of the fleet by scheduled tasks with an attempt", func(ctx SpecContext) {
		other := rolledOut("b", nil, due)
		r, _ := reconcilerFor(interceptor.Funcs{}, append(rolledOut("a", nil, due), append(other, scheduledTask(other[0]))...)...)
		reconcileAll(ctx, r, "a")
		Expect(tasks(ctx, r)).To(HaveLen(1))
	})

	DescribeTable("starts no drill that would wait",
		func(ctx SpecContext, change func(*druidv1alpha1.Etcd, *resourcesv1alpha1.ManagedResource)) {
			objects := rolledOut("a", nil, due)
			change(objects[0].(*druidv1alpha1.Etcd), objects[1].(*resourcesv1alpha1.ManagedResource))
			r, _ := reconcilerFor(interceptor.Funcs{}, objects...)
			result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "a"}})
			Expect(err).NotTo(HaveOccurred())
			Expect(result.RequeueAfter).To(Equal(time.Minute))
			Expect(tasks(ctx, r)).To(BeEmpty())
		},
		Entry("for the cluster", func(etcd *druidv1alpha1.Etcd, _ *resourcesv1alpha1.ManagedResource) {
			etcd.Status.Conditions[0].Status = "False"
		}),
		Entry("for a member", func(etcd *druidv1alpha1.Etcd, _ *resourcesv1alpha1.ManagedResource) {
			etcd.Status.Conditions[1].Status = "False"
		}),
		Entry("for the first observation", func(etcd *druidv1alpha1.Etcd, _ *resourcesv1alpha1.ManagedResource) { etcd.Status.Conditions = nil }),
		Entry("for the store", func(etcd *druidv1alpha1.Etcd, _ *resourcesv1alpha1.ManagedResource) {
			etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{Type: "StoreResolved", Status: "False"})
		}),
		Entry("for a full snapshot after lost writes", func(_ *druidv1alpha1.Etcd, mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations["etcd-druid.extensions.gardener.cloud/state"] = `{"version":1,"accepted":{"generation":1},"evidence":{"highestRevision":5000,"lostRevision":6000}}`
		}),
	)

	It("waits after a task that was rejected, as after one that has failed", func(ctx SpecContext) {
		r, _ := reconcilerFor(interceptor.Funcs{}, rolledOut("a", nil, due)...)
		reconcileAll(ctx, r, "a")
		rejected := tasks(ctx, r)[0]
		rejected.UID = "task"
		rejected.Status.State, rejected.Status.LastTransitionTime = new(druidv1alpha1.TaskStateRejected), &metav1.Time{Time: now}
		rejected.Status.LastErrors = []druidv1alpha1.LastError{{Description: "Etcd a hibernates"}}
		Expect(r.Client.Update(ctx, &rejected)).To(Succeed())
		reconcileAll(ctx, r, "a")
		mr := &resourcesv1alpha1.ManagedResource{}
		Expect(r.Reader.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-a"}, mr)).To(Succeed())
		Expect(mr.Annotations["etcd-druid.extensions.gardener.cloud/restore-drill"]).To(And(ContainSubstring("DrillIncomplete"), ContainSubstring("Etcd a hibernates")))
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "a"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically(">", time.Minute))
	})

	It("waits if its task exists, and reports one that is not its own", func(ctx SpecContext) {
		hidden := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*druidv1alpha1.EtcdOpsTaskList); is {
				return nil
			}

			return c.List(ctx, list, options...)
		}}
		r, _ := reconcilerFor(hidden, rolledOut("a", nil, due)...)
		r.Config.Limit = 10
		reconcileAll(ctx, r, "a")
		request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "a"}}
		result, err := r.Reconcile(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(Equal(time.Minute))

		foreign := tasks(ctx, r)[0]
		foreign.OwnerReferences = nil
		Expect(r.Client.Update(ctx, &foreign)).To(Succeed())
		Expect(r.Reconcile(ctx, request)).Error().To(MatchError(ContainSubstring("exists and does not belong to this Etcd: delete it")))
	})

	It("schedules no drill of an Etcd that has lost acknowledged writes, or hibernates", func(ctx SpecContext) {
		lost, hibernated := rolledOut("a", nil, due), rolledOut("b", nil, due)
		lost[1].GetAnnotations()["etcd-druid.extensions.gardener.cloud/state"] =
			`{"version":1,"accepted":{"generation":1},"evidence":{"highestRevision":5000,"rolledBack":{"revision":1100,"at":"2026-01-01T00:00:00Z"}}}`
		hibernated[0].(*druidv1alpha1.Etcd).Spec.Replicas = 0
		r, _ := reconcilerFor(interceptor.Funcs{}, append(lost, hibernated...)...)
		reconcileAll(ctx, r, "a", "b")
		Expect(tasks(ctx, r)).To(BeEmpty())
	})
})
