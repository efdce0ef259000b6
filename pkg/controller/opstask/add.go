// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
)

const (
	// ControllerName is the name of the controller of tasks in logs, metrics and events.
	ControllerName = "opstask"
	// requestControllerName is the name of the controller that creates tasks for an annotation.
	requestControllerName = "opstask-request"
)

// AddOptions are the dependencies of the controllers in addition to the manager.
type AddOptions struct {
	// Controller has the number of tasks that are reconciled concurrently.
	Controller controller.Options
	// RequeueInterval is the time between two reconciliations of a task that waits for a change without a watch event.
	RequeueInterval time.Duration
	// JobDeadline is the deadline of one Job of a compaction or a restore drill.
	JobDeadline time.Duration
	// Drills are the settings of restore drills.
	Drills Drills
	// Observer reads the cluster of one Etcd, and creates clients of its members and sidecars.
	Observer Observer
	// Locks prevent the defragmentation of a member while another controller replaces members. Nil: no lock.
	Locks *calls.ClusterLocks
	// Clock returns the current time. Nil: the real clock.
	Clock clock.Clock
}

// AddToManager adds both controllers to a manager. The caches of the manager must hold the objects of an Etcd.
func AddToManager(_ context.Context, mgr manager.Manager, o AddOptions) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Controller = queue.WithDefaults(o.Controller, time.Second, time.Minute)
	r := &Reconciler{
		Client:          mgr.GetClient(),
		Reader:          mgr.GetAPIReader(),
		Observer:        o.Observer,
		Calls:           calls.NewRunner[Outcome](),
		Locks:           o.Locks,
		RequeueInterval: o.RequeueInterval,
		JobDeadline:     o.JobDeadline,
		Drills:          o.Drills,
		Clock:           o.Clock,
		Recorder:        mgr.GetEventRecorder(ControllerName),
	}
	if err := mgr.Add(r.Calls); err != nil {
		return fmt.Errorf("adding what controller %s calls: %w", ControllerName, err)
	}
	if err := r.add(mgr, o.Controller); err != nil {
		return fmt.Errorf("adding controller %s: %w", ControllerName, err)
	}
	requester := &Requester{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder(ControllerName)}
	ownQueue := o.Controller
	ownQueue.RateLimiter = nil
	err := builder.ControllerManagedBy(mgr).
		Named(requestControllerName).
		WithOptions(ownQueue).
		For(&druidv1alpha1.Etcd{}, builder.WithPredicates(requestedOrGone())).
		Complete(requester)
	if err != nil {
		return fmt.Errorf("adding controller %s: %w", requestControllerName, err)
	}

	return nil
}

func (r *Reconciler) add(mgr manager.Manager, options controller.Options) error {
	return builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(options).
		For(&druidv1alpha1.EtcdOpsTask{}).
		Watches(&druidv1alpha1.EtcdOpsTask{}, handler.EnqueueRequestsFromMapFunc(r.pendingTasks)).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(r.taskOfJob)).
		WatchesRawSource(r.Calls.Source()).
		Complete(r)
}

// requestedOrGone passes Etcds with an annotation that requests a task, and deletions.
func requestedOrGone() predicate.Predicate {
	requested := predicate.NewPredicateFuncs(isRequested)

	return predicate.Funcs{CreateFunc: requested.Create, UpdateFunc: requested.Update, GenericFunc: requested.Generic, DeleteFunc: func(event.DeleteEvent) bool { return true }}
}

// isRequested is true for an Etcd with an annotation that requests a task.
func isRequested(etcd client.Object) bool {
	_, hasKind := etcd.GetAnnotations()[druidv1alpha1.RunTaskAnnotation]
	_, identified := etcd.GetAnnotations()[druidv1alpha1.RunTaskIDAnnotation]

	return hasKind || identified
}

// pendingTasks returns the pending tasks of the same Etcd, other than this one.
func (r *Reconciler) pendingTasks(ctx context.Context, object client.Object) []reconcile.Request {
	task, is := object.(*druidv1alpha1.EtcdOpsTask)
	if !is {
		return nil
	}

	return r.requests(ctx, task.Namespace, func(other *druidv1alpha1.EtcdOpsTask) bool {
		return other.Name != task.Name && ptr.Deref(other.Spec.EtcdName, "") == ptr.Deref(task.Spec.EtcdName, "") &&
			ptr.Deref(other.Status.State, "") == druidv1alpha1.TaskStatePending
	})
}

// taskOfJob returns the unfinished task that requested the Job.
func (r *Reconciler) taskOfJob(ctx context.Context, job client.Object) []reconcile.Request {
	uid := job.GetAnnotations()[druidv1alpha1.CompactionTaskAnnotation]
	if uid == "" {
		return nil
	}

	return r.requests(ctx, job.GetNamespace(), func(task *druidv1alpha1.EtcdOpsTask) bool {
		return string(task.UID) == uid && !helper.IsTaskFinished(task)
	})
}

// requests returns the tasks of a namespace that match.
func (r *Reconciler) requests(ctx context.Context, namespace string, is func(*druidv1alpha1.EtcdOpsTask) bool) []reconcile.Request {
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := r.Client.List(ctx, tasks, client.InNamespace(namespace)); err != nil {
		return nil // the next reconciliation finds it
	}
	var requests []reconcile.Request
	for i := range tasks.Items {
		if is(&tasks.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&tasks.Items[i])})
		}
	}

	return requests
}
