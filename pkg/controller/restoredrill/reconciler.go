// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package restoredrill

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/drill"
)

// conflictPause is the pause after a conflict with another writer, until the cache shows its change.
const conflictPause = 200 * time.Millisecond

// startPause is the pause after a task that could not be created, because it exists already and the cache does not show it yet.
const startPause = time.Minute

// Reconciler schedules restore drills, and records their results.
type Reconciler struct {
	// Client reads from the caches and writes to the API server.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Config has the schedule.
	Config Config
	// Clock returns the current time.
	Clock clock.PassiveClock
	// Recorder writes events.
	Recorder events.EventRecorder

	created createdTasks
	// reported are the annotations with an invalid period, by Etcd, about which there was an event.
	reported sync.Map
}

// Reconcile executes at most one action for one Etcd:
//  1. Guards: If the Etcd does not exist, its metrics are deleted.
//  2. Observe the record, the Job, its pods and the tasks.
//  3. Decide. If a scheduled drill is due, count those of all Etcds, and decide again.
//  4. Execute the action. A watch event of its effect triggers the next reconciliation.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	stored := &druidv1alpha1.Etcd{}
	if err := r.Client.Get(ctx, request.NamespacedName, stored); err != nil {
		if apierrors.IsNotFound(err) {
			deleteMetrics(request.NamespacedName)
			r.reported.Delete(request.NamespacedName)
		}

		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if stored.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	etcd, errs := helper.Canonical(stored)
	if len(errs) > 0 {
		return reconcile.Result{}, nil
	}
	obs, err := r.observe(ctx, etcd)
	if err != nil || obs.mr == nil {
		return reconcile.Result{}, err
	}
	setMetrics(request.NamespacedName, obs.Record.ProofFor(obs.Store))
	decision := obs.Decide(r.Clock.Now())
	if decision.Action == drill.ActionRunDrill && decision.Follows == "" {
		// Only a scheduled drill depends on those of other Etcds. No other one is counted and started until this one is.
		r.created.starting.Lock()
		defer r.created.starting.Unlock()
		if obs.Running, err = r.countRunning(ctx); err != nil {
			return reconcile.Result{}, err
		}
		decision = obs.Decide(r.Clock.Now())
	}
	logf.FromContext(ctx).V(1).Info("Decision computed", "action", decision.Action, "reason", decision.Reason)

	err = r.execute(ctx, etcd, obs, decision)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: startPause}, nil
	}

	return reconcile.Result{RequeueAfter: decision.RequeueAfter}, client.IgnoreNotFound(err)
}

// execute executes the action of the decision.
func (r *Reconciler) execute(ctx context.Context, etcd *druidv1alpha1.Etcd, obs observation, decision drill.Decision) error {
	switch decision.Action {
	case drill.ActionRecord:
		return r.record(ctx, etcd, obs, decision)
	case drill.ActionMarkJob:
		return r.markJob(ctx, etcd, obs, decision)
	case drill.ActionTakeSnapshot:
		return r.create(ctx, etcd, snapshotTask(etcd, decision), decision)
	case drill.ActionRunDrill:
		return r.startDrill(ctx, etcd, decision)
	default:
		return nil
	}
}

// record writes the record on the ManagedResource. The next reconciliation marks the Job.
func (r *Reconciler) record(ctx context.Context, etcd *druidv1alpha1.Etcd, obs observation, decision drill.Decision) error {
	text, err := decision.Record.Marshal()
	if err != nil {
		return err
	}
	updated := obs.mr.DeepCopy()
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, druidv1alpha1.ManagedResourceAnnotationRestoreDrill, text)
	if err := r.Client.Patch(ctx, updated, client.MergeFromWithOptions(obs.mr, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording the drill on ManagedResource %s: %w", updated.Name, err)
	}
	if result := decision.Result; result != nil && result.IsProof() {
		r.event(etcd, corev1.EventTypeNormal, result.Reason, "%s", result.Message)
	} else if result != nil {
		r.event(etcd, corev1.EventTypeWarning, result.Reason, "%s", result.Message)
	}

	return nil
}

// markJob writes the reason of the record on the Job, for its task.
func (r *Reconciler) markJob(ctx context.Context, etcd *druidv1alpha1.Etcd, obs observation, decision drill.Decision) error {
	updated := obs.job.DeepCopy()
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, druidv1alpha1.CompactionRecordedAnnotation, decision.Result.Reason)
	if err := r.Client.Patch(ctx, updated, client.MergeFromWithOptions(obs.job, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("marking Job %s as recorded: %w", updated.Name, err)
	}
	count(client.ObjectKeyFromObject(etcd), decision.Result.Reason)

	return nil
}

func (r *Reconciler) event(etcd *druidv1alpha1.Etcd, eventType, reason, format string, args ...any) {
	r.Recorder.Eventf(etcd, nil, eventType, reason, "RestoreDrill", format, args...)
}
