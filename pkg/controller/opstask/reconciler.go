// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// conflictPause is the pause after a conflict with another writer, until the cache shows its change.
const conflictPause = 200 * time.Millisecond

// Observer reads the cluster of one Etcd, and creates clients of its members and sidecars.
type Observer interface {
	// Observe reads the cluster of a canonical Etcd once. The Observation records read errors.
	Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation
	// HostPath returns the directory of a Local store on a node. Empty: the store is not Local, or its Secret does not name the
	// directory.
	HostPath(ctx context.Context, namespace string, store backupstore.Store) (string, error)
	// Member returns a client of the member in a pod.
	Member(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error)
	// Sidecar returns a client of the sidecar in a pod.
	Sidecar(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (sidecar.Client, error)
}

// Reconciler runs EtcdOpsTasks.
type Reconciler struct {
	// Client reads from the caches and writes to the API server.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Observer reads the cluster of one Etcd.
	Observer Observer
	// Calls runs long calls outside the workers.
	Calls *calls.Runner[Outcome]
	// Locks prevent the defragmentation of a member while another controller replaces members. Nil: no lock.
	Locks *calls.ClusterLocks
	// RequeueInterval is the time between two reconciliations of a task that waits for a change without a watch event.
	RequeueInterval time.Duration
	// JobDeadline is the deadline of one Job of a compaction or a restore drill.
	JobDeadline time.Duration
	// Drills are the settings of restore drills.
	Drills Drills
	// Clock returns the current time.
	Clock clock.PassiveClock
	// Recorder writes events.
	Recorder events.EventRecorder

	// starting prevents that two tasks of one Etcd start concurrently.
	starting sync.Mutex
}

// Reconcile executes at most one action for one task:
//  1. Observe the task, its Etcd, the other tasks of the Etcd, and the state of its call or Job.
//  2. Decide.
//  3. Execute the action, and write the result into the status.
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
	logf.FromContext(ctx).V(1).Info("Decision computed", "action", decision.Action, "message", decision.Message)

	result, err := r.execute(ctx, task, obs, decision)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}

	return result, client.IgnoreNotFound(err)
}

// execute executes the action of the decision.
func (r *Reconciler) execute(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, obs observation, decision opstask.Decision) (reconcile.Result, error) {
	switch decision.Action {
	case opstask.ActionRelease:
		r.Calls.Discard(task.UID)
		if err := errors.Join(r.cancelDrill(ctx, task), r.endInspection(ctx, task)); err != nil {
			return reconcile.Result{}, err
		}

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

// wait reports what the task waits for.
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

// startAttempt starts a call outside the workers. For a compaction, the compaction controller creates a Job for each task in
// progress. The call then only reads the new snapshot.
func (r *Reconciler) startAttempt(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, obs observation) (reconcile.Result, error) {
	timeout := opstask.AttemptTimeout(task, obs.etcd, r.JobDeadline)
	// The patch is always sent: a conflict prevents an attempt that is based on a stale task.
	err := r.patch(ctx, task, func(status *druidv1alpha1.EtcdOpsTaskStatus) {
		r.setOperation(ctx, status, druidv1alpha1.LastOperationTypeExecution, druidv1alpha1.LastOperationStateInProgress, opstask.AttemptMessage(obs.FailedAttempts+1, obs.Limits.Attempts))
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
