// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// conflictPause is how long to wait when somebody else wrote an object, so that the cache shows it.
const conflictPause = 200 * time.Millisecond

// Observer reads about one Etcd, and finds whom to talk to.
type Observer interface {
	// Observe reads everything about a canonical Etcd once. What cannot be read is told by the Observation.
	Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation
	// Member returns a client of the member in a pod.
	Member(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error)
	// Sidecar returns a client of the sidecar in a pod.
	Sidecar(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (sidecar.Client, error)
}

// Reconciler carries out tasks.
type Reconciler struct {
	// Client reads from the caches and writes.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Observer reads about one Etcd.
	Observer Observer
	// Calls runs what takes long.
	Calls *calls.Runner[Outcome]
	// Locks keep members from being defragmented while others are replaced. Nil: nobody replaces any.
	Locks *calls.ClusterLocks
	// RequeueInterval is the pause between two looks at a task that waits for something of which no event tells.
	RequeueInterval time.Duration
	// JobDeadline is how long a Job that compacts snapshots may take.
	JobDeadline time.Duration
	// Clock tells the time.
	Clock clock.PassiveClock
	// Recorder writes events.
	Recorder events.EventRecorder

	// starting keeps two tasks of one Etcd from being begun at the same time.
	starting sync.Mutex
}

// Reconcile looks at one task:
//  1. see what there is: the task, its Etcd, the tasks beside it, and how its call or its Job is;
//  2. decide;
//  3. do that one thing, and write it down in the status.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	task := &druidv1alpha1.EtcdOpsTask{}
	if err := r.Client.Get(ctx, request.NamespacedName, task); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	obs, err := r.observe(ctx, task)
	if err != nil {
		return reconcile.Result{}, err
	}
	decision := obs.Decide(r.Clock.Now())
	logf.FromContext(ctx).V(1).Info("Decided", "action", decision.Action, "message", decision.Message)

	result, err := r.execute(ctx, task, obs, decision)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}

	return result, client.IgnoreNotFound(err)
}

// execute carries out the decision.
func (r *Reconciler) execute(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, obs observation, decision opstask.Decision) (reconcile.Result, error) {
	switch decision.Action {
	case opstask.ActionRelease:
		r.Calls.Discard(task.UID)

		return reconcile.Result{}, r.release(ctx, task)
	case opstask.ActionDelete:
		return reconcile.Result{}, r.Client.Delete(ctx, task, client.Preconditions{UID: &task.UID})
	case opstask.ActionAccept:
		return reconcile.Result{}, r.accept(ctx, task)
	case opstask.ActionStart:
		return r.start(ctx, task)
	case opstask.ActionTry:
		return r.startAttempt(ctx, task, obs)
	case opstask.ActionTryAgain:
		return reconcile.Result{}, r.recordFailure(ctx, task, decision)
	case opstask.ActionReject, opstask.ActionFail, opstask.ActionSucceed:
		return reconcile.Result{}, r.end(ctx, task, obs, decision)
	default:
		return r.wait(ctx, task, obs, decision)
	}
}

// wait says what is waited for.
func (r *Reconciler) wait(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, obs observation, decision opstask.Decision) (reconcile.Result, error) {
	if decision.Message != "" {
		if err := r.setDescription(ctx, task, decision.Message); err != nil {
			return reconcile.Result{}, err
		}
	}
	if decision.RequeueAfter > r.RequeueInterval && obs.Precondition != nil {
		decision.RequeueAfter = r.RequeueInterval
	}

	return reconcile.Result{RequeueAfter: decision.RequeueAfter}, nil
}

// startAttempt makes an attempt: a call beside the workers. The Job of a compaction is made by its own controller, for which it is
// enough that the task is in progress; the call then only reads what the Job wrote.
func (r *Reconciler) startAttempt(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, obs observation) (reconcile.Result, error) {
	timeout := opstask.AttemptTimeout(task, obs.etcd, r.JobDeadline)
	// Written in any case: who has seen an older task than there is begins nothing.
	err := r.patch(ctx, task, func(status *druidv1alpha1.EtcdOpsTaskStatus) {
		r.setOperation(ctx, status, druidv1alpha1.LastOperationTypeExecution, druidv1alpha1.LastOperationStateInProgress, fmt.Sprintf("Attempt %d of %d", obs.FailedAttempts+1, obs.Limits.Attempts))
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	task = task.DeepCopy()
	if !r.Calls.Run(task, func(ctx context.Context) Outcome { return r.call(ctx, task, obs.etcd, timeout) }) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}

	return reconcile.Result{RequeueAfter: timeout}, nil
}
