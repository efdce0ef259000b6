// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
)

var _ = Describe("Requester", func() {
	It("creates one task for one annotation if the Etcd changes in the meantime and the task has started", func() {
		ctx := context.Background()
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
		etcd.Annotations = map[string]string{"druid.gardener.cloud/run-task": "full-snapshot", "other": "stays"}
		key := client.ObjectKeyFromObject(etcd)
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				object.(*druidv1alpha1.EtcdOpsTask).Status.State = new(druidv1alpha1.TaskStateInProgress)
				if err := c.Create(ctx, object, options...); err != nil {
					return err
				}
				written := &druidv1alpha1.Etcd{}
				if err := c.Get(ctx, key, written); err != nil {
					return err
				}
				written.Labels = map[string]string{"changed": "true"}

				return c.Update(ctx, written)
			},
		}).Build()
		requester := &opstask.Requester{Client: c, Reader: c, Recorder: events.NewFakeRecorder(10)}

		for range 4 {
			_, err := requester.Reconcile(ctx, reconcile.Request{NamespacedName: key})
			Expect(err).NotTo(HaveOccurred())
		}
		tasks := &druidv1alpha1.EtcdOpsTaskList{}
		Expect(c.List(ctx, tasks)).To(Succeed())
		Expect(tasks.Items).To(HaveLen(1))
		Expect(c.Get(ctx, key, etcd)).To(Succeed())
		Expect(etcd.Annotations).To(Equal(map[string]string{"other": "stays"}))
	})

	DescribeTable("removes an annotation with a value that Go and JSON write in different ways", func(ctx SpecContext, kind string) {
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
		etcd.Annotations = map[string]string{"druid.gardener.cloud/run-task": kind, "other": "stays"}
		key := client.ObjectKeyFromObject(etcd)
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).Build()
		requester := &opstask.Requester{Client: c, Reader: c, Recorder: events.NewFakeRecorder(10)}
		_, err := requester.Reconcile(ctx, reconcile.Request{NamespacedName: key})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Get(ctx, key, etcd)).To(Succeed())
		Expect(etcd.Annotations).To(Equal(map[string]string{"other": "stays"}))
	},
		Entry("a control character", "full\x7fsnapshot"),
		Entry("a bell", "\a"),
		Entry("an injected JSON patch operation", `x"},{"op":"remove","path":"/metadata/annotations/other","value":"`),
	)

	It("names a task once if the cache is stale", func() {
		ctx := context.Background()
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
		etcd.Annotations = map[string]string{"druid.gardener.cloud/run-task": "full-snapshot"}
		key := client.ObjectKeyFromObject(etcd)
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		var cached *druidv1alpha1.Etcd
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if into, is := object.(*druidv1alpha1.Etcd); is && cached != nil {
					cached.DeepCopyInto(into)

					return nil
				}

				return c.Get(ctx, key, object, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				err := c.Patch(ctx, object, patch, options...)
				if err != nil && strings.Contains(err.Error(), "test failed") {
					return apierrors.NewInvalid(schema.GroupKind{}, object.GetName(), nil) // as the API server says it
				}

				return err
			},
		}).Build()
		requester := &opstask.Requester{Client: c, Reader: c, Recorder: events.NewFakeRecorder(10)}
		reconcileOnce := func() reconcile.Result {
			GinkgoHelper()
			result, err := requester.Reconcile(ctx, reconcile.Request{NamespacedName: key})
			Expect(err).NotTo(HaveOccurred())

			return result
		}
		read := func() *druidv1alpha1.Etcd {
			GinkgoHelper()
			cached = nil
			etcd := &druidv1alpha1.Etcd{}
			Expect(c.Get(ctx, key, etcd)).To(Succeed())

			return etcd
		}

		before := read()
		before.Labels = map[string]string{"changed": "true"}
		Expect(c.Update(ctx, before)).To(Succeed())
		reconcileOnce()
		named := read().Annotations["etcd-druid.extensions.gardener.cloud/run-task-id"]
		Expect(named).NotTo(BeEmpty())
		cached = before.DeepCopy()
		Expect(reconcileOnce().RequeueAfter).To(BeNumerically(">", 0))
		Expect(read().Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/run-task-id", named))
	})

	DescribeTable("does not lose a request whose task name is in use by a task that is",
		func(owner types.UID, tasks int, event string) {
			ctx := context.Background()
			etcd := &druidv1alpha1.Etcd{}
			etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
			etcd.Annotations = map[string]string{"druid.gardener.cloud/run-task": "full-snapshot", "etcd-druid.extensions.gardener.cloud/run-task-id": "7"}
			existing := &druidv1alpha1.EtcdOpsTask{}
			existing.Name, existing.Namespace = "main-full-snapshot-7", "demo"
			existing.OwnerReferences = []metav1.OwnerReference{{APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "Etcd", Name: "main", UID: owner, Controller: new(true)}}
			existing.Status.State = new(druidv1alpha1.TaskStateSucceeded)
			scheme := runtime.NewScheme()
			Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
			c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd, existing).Build()
			recorder := events.NewFakeRecorder(10)
			requester := &opstask.Requester{Client: c, Reader: c, Recorder: recorder}
			for range 5 {
				_, err := requester.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
				Expect(err).NotTo(HaveOccurred())
			}
			list := &druidv1alpha1.EtcdOpsTaskList{}
			Expect(c.List(ctx, list)).To(Succeed())
			Expect(list.Items).To(HaveLen(tasks))
			Expect(recorder.Events).To(HaveLen(1))
			Expect(<-recorder.Events).To(ContainSubstring(event))
			read := &druidv1alpha1.Etcd{}
			Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), read)).To(Succeed())
			Expect(read.Annotations).To(BeEmpty())
		},
		Entry("owned by the Etcd", types.UID("etcd-uid"), 1, "TaskExists EtcdOpsTask main-full-snapshot-7"),
		Entry("owned by a deleted Etcd", types.UID("former-uid"), 2, "TaskCreated"),
	)

	DescribeTable("creates one task for one annotation, which starts immediately, if the operator is killed",
		func(write int, isDone bool) {
			ctx := context.Background()
			etcd := &druidv1alpha1.Etcd{}
			etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
			etcd.Annotations = map[string]string{"druid.gardener.cloud/run-task": "compaction"}
			key := client.ObjectKeyFromObject(etcd)
			scheme := runtime.NewScheme()
			Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
			writes := 0
			die := func(do func() error) error {
				if writes++; writes == write && !isDone {
					panic("killed")
				}
				err := do()
				if writes == write {
					panic("killed")
				}

				return err
			}
			c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					object.(*druidv1alpha1.EtcdOpsTask).Status.State = new(druidv1alpha1.TaskStateInProgress)

					return die(func() error { return c.Create(ctx, object, options...) })
				},
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
					return die(func() error { return c.Patch(ctx, object, patch, options...) })
				},
			}).Build()
			// reconcileAll reconciles until the operator is killed, and returns whether it was.
			reconcileAll := func() (died bool) {
				defer func() { died = recover() != nil }()
				requester := &opstask.Requester{Client: c, Reader: c, Recorder: events.NewFakeRecorder(10)}
				for range 5 {
					_, err := requester.Reconcile(ctx, reconcile.Request{NamespacedName: key})
					Expect(err).NotTo(HaveOccurred())
				}

				return false
			}
			Expect(reconcileAll()).To(BeTrue(), "the operator does not reach write %d", write)
			// Another client writes to the Etcd before the operator restarts.
			Expect(c.Get(ctx, key, etcd)).To(Succeed())
			etcd.Labels = map[string]string{"changed": "true"}
			Expect(c.Update(ctx, etcd)).To(Succeed())
			Expect(reconcileAll()).To(BeFalse())

			tasks := &druidv1alpha1.EtcdOpsTaskList{}
			Expect(c.List(ctx, tasks)).To(Succeed())
			Expect(tasks.Items).To(HaveLen(1))
			read := &druidv1alpha1.Etcd{}
			Expect(c.Get(ctx, key, read)).To(Succeed())
			Expect(read.Annotations).To(BeEmpty())

			read.Annotations = map[string]string{"druid.gardener.cloud/run-task": "compaction"}
			Expect(c.Update(ctx, read)).To(Succeed())
			Expect(reconcileAll()).To(BeFalse())
			Expect(c.List(ctx, tasks)).To(Succeed())
			Expect(tasks.Items).To(HaveLen(2), "another request creates another task")
		},
		Entry("before it records the name of the task", 1, false),
		Entry("after it records the name of the task", 1, true),
		Entry("before it creates the task", 2, false),
		Entry("after it creates the task", 2, true),
		Entry("before it removes the annotations", 3, false),
		Entry("after it removes the annotations", 3, true),
	)
})
