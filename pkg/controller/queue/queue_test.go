// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
)

var _ = Describe("The queue of a controller", func() {
	etcdWith := func(name, version string) *druidv1alpha1.Etcd {
		return &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: name, ResourceVersion: version}}
	}

	It("has a changed Etcd before the created ones, and those before the ones that existed when the operator started", func(ctx context.Context) {
		q := priorityqueue.New[reconcile.Request]("queue-test")
		DeferCleanup(q.ShutDown)

		others := handler.WithLowPriorityWhenUnchanged(&handler.EnqueueRequestForObject{})
		create := func(name string, isInitial bool) {
			e := event.CreateEvent{Object: etcdWith(name, "1"), IsInInitialList: isInitial}
			queue.Created().Create(ctx, e, q)
			if queue.NotCreated().Create(e) {
				others.Create(ctx, e, q)
			}
		}
		change := func(name string) {
			e := event.UpdateEvent{ObjectOld: etcdWith(name, "1"), ObjectNew: etcdWith(name, "2")}
			Expect(queue.NotCreated().Update(e)).To(BeTrue())
			queue.Created().Update(ctx, e, q)
			others.Update(ctx, e, q)
		}

		create("existing", true)
		create("created", false)
		create("created-next", false)
		create("created-with-event", false)
		change("running")
		change("created-with-event")

		var names []string
		for range 5 {
			request, _, _ := q.GetWithPriority()
			names = append(names, request.Name)
			q.Done(request)
		}
		Expect(names).To(Equal([]string{"running", "created-with-event", "created", "created-next", "existing"}))
	})

	It("has a length without the requests whose time has not come", func() {
		length := &queue.Length{}
		Expect(length.Get()).To(BeZero())

		q := length.NewQueue("length-test", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour))
		DeferCleanup(q.ShutDown)

		request := func(name string) reconcile.Request {
			return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
		}
		q.Add(request("ready"))
		q.AddAfter(request("later"), time.Hour)
		q.AddRateLimited(request("failed"))
		Expect(length.Get()).To(Equal(1))
	})
})
