// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
)

var _ = Describe("Requester", func() {
	It("makes one task of one annotation, also when the Etcd is written to meanwhile and the task has begun", func() {
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
				written.Labels = map[string]string{"somebody": "was here"}

				return c.Update(ctx, written)
			},
		}).Build()
		requester := &opstask.Requester{Client: c, Reader: c, Recorder: events.NewFakeRecorder(10)}

		for range 3 {
			result, err := requester.Reconcile(ctx, reconcile.Request{NamespacedName: key})
			Expect(err).NotTo(HaveOccurred())
			if result.RequeueAfter == 0 {
				break
			}
		}
		tasks := &druidv1alpha1.EtcdOpsTaskList{}
		Expect(c.List(ctx, tasks)).To(Succeed())
		Expect(tasks.Items).To(HaveLen(1))
		Expect(c.Get(ctx, key, etcd)).To(Succeed())
		Expect(etcd.Annotations).To(Equal(map[string]string{"other": "stays"}))
	})
})
