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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

const (
	// conflictPause is how long to wait when somebody else wrote an object, so that the cache shows it.
	conflictPause = 200 * time.Millisecond
	// existsPause is how long to wait where something has to be created that exists.
	existsPause = 2 * time.Second
	// storePause is when to look again for a store that is not known.
	storePause = time.Minute
)

// Observer reads about one Etcd.
type Observer interface {
	// Observe reads everything about a canonical Etcd once. What cannot be read is told by the Observation.
	Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation
	// HostPath reads where on a node a Local store lies. Empty for every other store, and where its Secret does not say.
	HostPath(ctx context.Context, namespace string, store backupstore.Store) (string, error)
}

// Reconciler has snapshots compacted.
type Reconciler struct {
	// Client reads from the caches and writes.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Observer reads what a Job has to be rendered from.
	Observer Observer
	// Config says when to compact.
	Config Config
	// Clock tells the time.
	Clock clock.PassiveClock
	// Recorder writes events.
	Recorder events.EventRecorder
}

// Reconcile looks at the snapshots of one Etcd:
//  1. guards: it is gone, and its metrics go with it; it is being deleted, and the etcd controller deletes its Jobs; its spec
//     contradicts itself, which the etcd controller reports;
//  2. see what there is: leases, Job, pods, tasks;
//  3. decide;
//  4. do that one thing; what it leads to wakes the controller up again.
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
	decision := obs.Decide(r.Clock.Now())
	logf.FromContext(ctx).V(1).Info("Decided", "action", decision.Action, "reason", decision.Reason)

	result, err := r.execute(ctx, etcd, obs, decision)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case apierrors.IsAlreadyExists(err):
		// The cache lags behind, or the one before is still being deleted.
		return reconcile.Result{RequeueAfter: existsPause}, nil
	}

	return result, client.IgnoreNotFound(err)
}

// execute carries out the decision.
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
