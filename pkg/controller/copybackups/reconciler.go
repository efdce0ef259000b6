// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener/pkg/controllerutils"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
)

const (
	// fallbackResync is the time after which a waiting task is reconciled without a watch event.
	fallbackResync = 15 * time.Second
	// deletionResync is the time between two checks whether the Job is deleted.
	deletionResync = 2 * time.Second
	// startTimeout is how long a copy may take from the reservation of its target until its Job exists. A reservation lasts four minutes, and a
	// reconciliation of an Etcd three. An Etcd that reserves the store afterwards has therefore observed the Job.
	startTimeout = 30 * time.Second
)

// Images are the images of the Job.
type Images struct {
	// BackupRestore copies the snapshots. Init prepares the directory of a Local store.
	BackupRestore, Init string
}

// Observer reads the backup configuration of Gardener, and who uses a store.
type Observer interface {
	ObserveStore(ctx context.Context, etcd *druidv1alpha1.Etcd) (etcdcluster.Gardener, error)
	// StoreUsers returns the Etcds of all namespaces whose stores may collide with a store.
	StoreUsers(ctx context.Context, store backupstore.Store) ([]etcdcluster.StoreUser, error)
}

// Reconciler reconciles EtcdCopyBackupsTasks.
type Reconciler struct {
	// Client reads from the caches and writes to the API server.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Observer reads the backup configuration of Gardener.
	Observer Observer
	// Images are the images of the Job.
	Images Images
	// LocalStoreRoots are the directories of nodes that stores with the provider Local may use. Empty: none.
	LocalStoreRoots backupstore.LocalRoots
	// Restrictions are the values that authors may select. Zero: all.
	Restrictions restrictions.Restrictions
	// Stores prevent that an Etcd begins to use the target at the same time. Nil: nothing prevents it.
	Stores *calls.StoreReservations
	// Clock returns the time for conditions.
	Clock clock.Clock
	// Recorder writes events.
	Recorder events.EventRecorder
}

// waitingError is the error of a task that waits. Its message names what the task waits for.
type waitingError struct{ message string }

// Error returns a sentence that begins with "Waiting".
func (e *waitingError) Error() string { return e.message }

// Reconcile reconciles one task and never blocks. Each generation of a task is copied once. After its Job has ended, the
// controller reads nothing more.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	task := &druidv1alpha1.EtcdCopyBackupsTask{}
	if err := r.Client.Get(ctx, req.NamespacedName, task); err != nil {
		if apierrors.IsNotFound(err) {
			deleteMetrics(req.NamespacedName)
			r.Stores.Release(storeUser(req.NamespacedName))
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if task.DeletionTimestamp != nil {
		return r.delete(ctx, task)
	}
	if helper.IsCopyCompleted(task) {
		return reconcile.Result{}, nil
	}
	if !controllerutil.ContainsFinalizer(task, druidv1alpha1.EtcdFinalizerName) {
		if err := controllerutils.AddFinalizers(ctx, r.Client, task, druidv1alpha1.EtcdFinalizerName); err != nil {
			return reconcile.Result{}, fmt.Errorf("adding the finalizer: %w", err)
		}
	}

	conditions, err := r.reconcileJob(ctx, task)
	return r.report(ctx, task, conditions, err)
}

// report writes the status once, and translates the error into a result.
func (r *Reconciler) report(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask, conditions []druidv1alpha1.Condition, err error) (reconcile.Result, error) {
	var (
		waiting *waitingError
		result  reconcile.Result
		failure = err
	)
	switch {
	case errors.As(err, &waiting):
		conditions = []druidv1alpha1.Condition{copybackups.Progressing(druidv1alpha1.ConditionTrue, copybackups.ReasonWaiting, waiting.message)}
		result.RequeueAfter, failure = fallbackResync, nil
	case errors.Is(err, reconcile.TerminalError(nil)):
		conditions = []druidv1alpha1.Condition{copybackups.Progressing(druidv1alpha1.ConditionFalse, copybackups.ReasonInvalid, messageOf(err))}
	case err != nil:
		conditions = []druidv1alpha1.Condition{copybackups.Progressing(druidv1alpha1.ConditionTrue, copybackups.ReasonWaiting, "Trying again: "+err.Error())}
	}
	if patchErr := r.patchStatus(ctx, task, conditions, err); patchErr != nil {
		if apierrors.IsConflict(patchErr) {
			return reconcile.Result{RequeueAfter: time.Second}, nil
		}
		return reconcile.Result{}, client.IgnoreNotFound(patchErr)
	}
	if slices.ContainsFunc(conditions, func(condition druidv1alpha1.Condition) bool {
		return condition.Type != druidv1alpha1.EtcdCopyBackupsTaskProgressing && condition.Status == druidv1alpha1.ConditionTrue
	}) {
		r.Stores.Release(storeUser(client.ObjectKeyFromObject(task))) // the copy has ended
	}
	r.count(ctx, task, conditions)
	return result, failure
}

// delete deletes the Job of a task that is being deleted. It removes the finalizer after the Job and its pods are deleted.
func (r *Reconciler) delete(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(task, druidv1alpha1.EtcdFinalizerName) {
		return reconcile.Result{}, nil
	}
	isDeleted, err := r.deleteJob(ctx, task)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !isDeleted {
		logf.FromContext(ctx).V(1).Info("Waiting for the deletion of the Job")
		return reconcile.Result{RequeueAfter: deletionResync}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(controllerutils.RemoveFinalizers(ctx, r.Client, task, druidv1alpha1.EtcdFinalizerName))
}

// messageOf returns the text of an error without the prefix that controller-runtime adds to terminal errors.
func messageOf(err error) string {
	if errors.Is(err, reconcile.TerminalError(nil)) {
		if wrapped := errors.Unwrap(err); wrapped != nil {
			return wrapped.Error()
		}
	}
	return err.Error()
}
