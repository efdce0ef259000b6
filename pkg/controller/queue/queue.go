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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
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

// LowPriority is the priority of work that can wait for the work of other Etcds. This includes the first reconciliation of an Etcd that was just
// created, and the periodic reconciliations of Etcds that need no action. Other events have the priority 0. The reconciliations after the start
// of the operator have the lowest priority, handler.LowPriority. The queue processes the requests of a priority in order.
//
// Without it, a change of a running Etcd waits until thousands of created Etcds are reconciled.
const LowPriority = -10

// Length is the number of requests that wait for a worker of a controller. The zero value is ready. It must not be copied.
type Length struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

// NewQueue creates the queue of the controller. It is for controller.Options. The queue has priorities, like the default of controller-runtime.
func (l *Length) NewQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	var queue workqueue.TypedRateLimitingInterface[reconcile.Request] = priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) {
		o.RateLimiter, o.Log = limiter, logf.Log.WithName("queue").WithValues("controller", name)
	})
	l.queue.Store(&queue)

	return queue
}

// Get returns the number, 0 before the controller has started. It does not include requests whose time has not come.
func (l *Length) Get() int {
	queue := l.queue.Load()
	if queue == nil {
		return 0
	}

	return (*queue).Len()
}

// Created returns a handler that enqueues an Etcd that was just created with LowPriority. An event about its members then enqueues it with the
// priority 0. The operator thus completes the creations that it has begun before it begins others. It ignores other events, and Etcds that
// exist when the operator starts.
func Created() handler.EventHandler {
	return handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if e.IsInInitialList {
			return
		}

		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
		if prioritized, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: new(LowPriority)}, request)
		} else {
			queue.Add(request)
		}
	}}
}

// NotCreated passes all events except for the creation of an object while the operator runs, which Created handles.
func NotCreated() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return e.IsInInitialList }}
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
