// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"strings"
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
	requestFor := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shoot", Name: name}}
	}
	newQueue := func(queue *queue.Queue) priorityqueue.PriorityQueue[reconcile.Request] {
		created := queue.New("test", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Nanosecond, time.Hour))
		DeferCleanup(created.ShutDown)

		return created.(priorityqueue.PriorityQueue[reconcile.Request])
	}

	It("has running Etcds before those that are being created, and those before the ones that existed when the operator started", func(ctx context.Context) {
		q := newQueue(&queue.Queue{CanWait: func(request reconcile.Request) bool { return strings.HasPrefix(request.Name, "created") }})
		handler := handler.WithLowPriorityWhenUnchanged(&handler.EnqueueRequestForObject{})
		etcdWith := func(name, version string) *druidv1alpha1.Etcd {
			return &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: name, ResourceVersion: version}}
		}
		create := func(name string, isInitial bool) {
			handler.Create(ctx, event.CreateEvent{Object: etcdWith(name, "1"), IsInInitialList: isInitial}, q)
		}
		update := func(name string) {
			handler.Update(ctx, event.UpdateEvent{ObjectOld: etcdWith(name, "1"), ObjectNew: etcdWith(name, "2")}, q)
		}

		create("existing", true)
		create("created-existing", true)
		create("created-0", false)
		create("created-1", false)
		update("created-0")
		update("running-0")
		q.Add(requestFor("created-2"))
		q.AddAfter(requestFor("created-3"), 0)
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(queue.LowPriority)}, requestFor("running-without-action"))
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(0)}, requestFor("running-1"), requestFor("created-4"))

		var names []string
		for range 10 {
			request, _, _ := q.GetWithPriority()
			names = append(names, request.Name)
			q.Done(request)
		}
		Expect(names).To(Equal([]string{
			"running-0", "running-1",
			"created-0", "created-1", "created-2", "created-3", "running-without-action", "created-4",
			"existing", "created-existing",
		}))
	})

	It("retries the failed reconciliation of an Etcd that is being created with a low priority", func() {
		q := newQueue(&queue.Queue{CanWait: func(reconcile.Request) bool { return true }})
		for _, add := range []func(reconcile.Request){
			q.AddRateLimited,
			func(request reconcile.Request) { // as controller-runtime does
				q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: new(0)}, request)
			},
		} {
			add(requestFor("failed"))
			request, priority, _ := q.GetWithPriority()
			Expect(priority).To(Equal(queue.LowPriority))
			q.Done(request)
		}
	})

	It("has a length without the requests whose time has not come", func() {
		length := &queue.Queue{}
		Expect(length.Len()).To(BeZero())

		q := newQueue(length)
		q.Add(requestFor("ready"))
		q.AddAfter(requestFor("later"), time.Hour)
		Expect(length.Len()).To(Equal(1))
	})
})
