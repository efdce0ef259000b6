// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/storejob"
)

const (
	// conflictPause is the pause after a conflict with another writer, until the cache shows its change.
	conflictPause = 200 * time.Millisecond
	// existsPause is the pause after a create request for an object that already exists.
	existsPause = 2 * time.Second
	// storePause is the time until the next attempt to resolve an unknown store.
	storePause = time.Minute
)

// Reconciler compacts the snapshots of Etcds.
type Reconciler struct {
	// Client reads from the caches and writes to the API server.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Observer reads the values of the Job's manifest.
	Observer storejob.Observer
	// Versions write the status of Etcds. Nil: writes of another controller cause conflicts.
	Versions *calls.EtcdVersions
	// Config has the thresholds and time limits.
	Config Config
	// Clock returns the current time.
	Clock clock.PassiveClock
	// Recorder writes events.
	Recorder events.EventRecorder
}

// Reconcile executes at most one action for the snapshots of one Etcd:
//  1. Guards: If the Etcd does not exist, its metrics are deleted. The etcd controller deletes the Jobs of an Etcd that is
//     being deleted, and reports a spec that contradicts itself.
//  2. Observe the Leases, the Job, its pods and the tasks.
//  3. Decide. Before a compaction or a full snapshot starts, read the record again from the API server. The cache may not yet
//     show that acknowledged writes are lost, or that the store has changed.
//  4. Execute the action. A watch event of its effect triggers the next reconciliation.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	stored := &druidv1alpha1.Etcd{}
	if err := r.Client.Get(ctx, request.NamespacedName, stored); err != nil {
		if apierrors.IsNotFound(err) {
			deleteMetrics(request.NamespacedName)
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
	if err != nil {
		return reconcile.Result{}, err
	}
	setMetrics(client.ObjectKeyFromObject(etcd), obs.Input)
	now := r.Clock.Now()
	decision := obs.Decide(now)
	if decision.Action == compaction.ActionRunJob || decision.Action == compaction.ActionTakeSnapshot {
		if err := readRecord(ctx, r.Reader, etcd, &obs); err != nil {
			return reconcile.Result{}, err
		}
		decision = obs.Decide(now)
	}
	logf.FromContext(ctx).V(1).Info("Decision computed", "action", decision.Action, "reason", decision.Reason)

	result, err := r.execute(ctx, etcd, obs, decision)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case apierrors.IsAlreadyExists(err):
		// The cache is stale, or the previous object is still being deleted.
		return reconcile.Result{RequeueAfter: existsPause}, nil
	}

	return result, client.IgnoreNotFound(err)
}

// execute executes the action of the decision.
func (r *Reconciler) execute(ctx context.Context, etcd *druidv1alpha1.Etcd, obs observation, decision compaction.Decision) (reconcile.Result, error) {
	switch decision.Action {
	case compaction.ActionNoteDisruption:
		return reconcile.Result{}, r.annotate(ctx, obs.job, druidv1alpha1.CompactionDisruptionAnnotation, obs.Job.Disruption)
	case compaction.ActionRecordJob:
		return reconcile.Result{}, r.recordJob(ctx, etcd, obs)
	case compaction.ActionRecordSnapshot:
		return reconcile.Result{}, r.recordSnapshot(ctx, etcd, obs)
	case compaction.ActionDeleteJob:
		return reconcile.Result{}, r.deleteJob(ctx, obs.job, metav1.DeletePropagationForeground)
	case compaction.ActionRunJob:
		return r.runJob(ctx, etcd, obs, decision)
	case compaction.ActionTakeSnapshot:
		return reconcile.Result{}, r.takeSnapshot(ctx, etcd, obs, decision)
	default:
		return reconcile.Result{RequeueAfter: decision.RequeueAfter}, nil
	}
}

// annotate writes one annotation.
func (r *Reconciler) annotate(ctx context.Context, object client.Object, key, value string) error {
	before, is := object.DeepCopyObject().(client.Object)
	if !is {
		return fmt.Errorf("annotating %s: it is no object", object.GetName())
	}
	annotations := map[string]string{key: value}
	for k, v := range object.GetAnnotations() {
		if k != key {
			annotations[k] = v
		}
	}
	object.SetAnnotations(annotations)
	if err := r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("annotating %s: %w", object.GetName(), err)
	}

	return nil
}
