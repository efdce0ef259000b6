// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package queue has what the controllers share about their queues: which Etcd an object enqueues, with which priority, and when a failed
// reconciliation is retried.
//
// What may not live here: reads, and what only one controller watches.
package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gardener/gardener/pkg/controllerutils"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// WithDefaults returns the options with defaults: the timeout of Gardener for a reconciliation, and a backoff after failures between first and longest.
func WithDefaults(o controller.Options, first, longest time.Duration) controller.Options {
	if o.ReconciliationTimeout == 0 {
		o.ReconciliationTimeout = controllerutils.DefaultReconciliationTimeout
	}
	if o.RateLimiter == nil {
		o.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, longest)
	}

	return o
}

// LowPriority is the priority of work that can wait for the work of other Etcds, see Queue. Other events have the priority 0. The
// reconciliations after the start of the operator and after a resync have the lowest priority, handler.LowPriority. The queue processes the
// requests of a priority in order.
const LowPriority = -10

// Queue creates the queue of a controller, which has priorities. It must not be copied.
type Queue struct {
	// CanWait returns whether the requests of an Etcd with the priority 0 get LowPriority. Without it, a change of a running Etcd waits until
	// thousands of new Etcds are reconciled. It must not send a request to the API server. Nil: no Etcd can wait.
	CanWait func(reconcile.Request) bool

	queue atomic.Pointer[prioritized]
}

// New creates the queue of the controller. It is NewQueue of controller.Options.
func (q *Queue) New(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := &prioritized{canWait: q.CanWait, PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) {
		o.RateLimiter, o.Log = limiter, logf.Log.WithName("queue").WithValues("controller", name)
	})}
	q.queue.Store(queue)

	return queue
}

// Len returns the number of requests that wait for a worker, 0 before the controller has started. It does not include requests whose time has
// not come.
func (q *Queue) Len() int {
	queue := q.queue.Load()
	if queue == nil {
		return 0
	}

	return queue.Len()
}

// prioritized is a queue in which the requests of some Etcds have LowPriority.
type prioritized struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	canWait func(reconcile.Request) bool
}

// Add implements workqueue.TypedInterface.
func (q *prioritized) Add(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, request)
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *prioritized) AddAfter(request reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, request)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *prioritized) AddRateLimited(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *prioritized) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	for _, request := range requests {
		options := o
		if q.canWait != nil && (o.Priority == nil || *o.Priority == 0) && q.canWait(request) {
			options.Priority = new(LowPriority)
		}

		q.PriorityQueue.AddWithOpts(options, request)
	}
}

// Etcd returns the request for an Etcd.
func Etcd(_ context.Context, etcd client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(etcd)}}
}

// EtcdByLabel returns the request for the Etcd that the labels of the object name. Nil: they name none.
func EtcdByLabel(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[druidv1alpha1.LabelPartOfKey]
	if name == "" {
		return nil
	}

	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}}}
}

// EtcdByManagedResource returns the request for the Etcd of a ManagedResource. Nil: it is not that of an Etcd.
func EtcdByManagedResource(_ context.Context, object client.Object) []reconcile.Request {
	name, isOfEtcd := helper.EtcdNameOfManagedResource(object.GetName())
	if !isOfEtcd {
		return nil
	}

	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}}}
}

// IsComponent passes the objects of an Etcd with this component label.
func IsComponent(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetLabels()[druidv1alpha1.LabelComponentKey] == name
	})
}
