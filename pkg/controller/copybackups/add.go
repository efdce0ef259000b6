// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "etcdcopybackupstask"

// AddOptions are the dependencies of the controller in addition to the manager.
type AddOptions struct {
	// Controller has the number of tasks that are reconciled concurrently.
	Controller controller.Options
	// Images are the images of the Job.
	Images Images
	// LocalStoreRoots are the directories of nodes that stores with the provider Local may use. Empty: none.
	LocalStoreRoots backupstore.LocalRoots
	// Restrictions are the values that authors may select. Zero: all.
	Restrictions restrictions.Restrictions
	// Observer reads the backup configuration of Gardener.
	Observer Observer
	// Stores prevent that an Etcd begins to use the target of a copy at the same time. Nil: nothing prevents it.
	Stores *calls.StoreReservations
	// Clock returns the current time. Nil: the real clock.
	Clock clock.Clock
}

// AddToManager adds the controller to a manager. The caches of the manager must hold Jobs and pods with the labels of this
// operator.
func AddToManager(_ context.Context, mgr manager.Manager, o AddOptions) error {
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Reader:   mgr.GetAPIReader(),
		Observer: o.Observer,
		Images:   o.Images,
		Stores:   o.Stores,

		LocalStoreRoots: o.LocalStoreRoots,
		Restrictions:    o.Restrictions,

		Clock:    o.Clock,
		Recorder: mgr.GetEventRecorder(ControllerName),
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	o.Controller = queue.WithDefaults(o.Controller, time.Second, 5*time.Minute)
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(o.Controller).
		For(&druidv1alpha1.EtcdCopyBackupsTask{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(taskForPod)).
		WatchesMetadata(secret, handler.EnqueueRequestsFromMapFunc(r.tasksForSecret)).
		Complete(r)
}

// taskForPod returns the request for the task of a copy pod. It ignores all other pods.
func taskForPod(_ context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[druidv1alpha1.LabelComponentKey] != druidv1alpha1.ComponentNameCopyBackupsJob {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: labels[druidv1alpha1.LabelPartOfKey]}}}
}

// tasksForSecret returns the requests for the tasks that may wait for the Secret.
func (r *Reconciler) tasksForSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	tasks := &druidv1alpha1.EtcdCopyBackupsTaskList{}
	if err := r.Client.List(ctx, tasks, client.InNamespace(secret.GetNamespace())); err != nil {
		return nil // waiting tasks are requeued after fallbackResync
	}
	var requests []reconcile.Request
	for i := range tasks.Items {
		if task := &tasks.Items[i]; !helper.IsCopyCompleted(task) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(task)})
		}
	}
	return requests
}
