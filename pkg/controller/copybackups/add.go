// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"context"
	"time"

	"github.com/gardener/gardener/pkg/controllerutils"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "etcdcopybackupstask"

// AddOptions are what the controller needs beside the manager.
type AddOptions struct {
	// Controller says how many tasks are worked on at the same time.
	Controller controller.Options
	// Images are those of the Job.
	Images Images
	// LocalStoreRoots are the directories of nodes that stores with the provider Local may use. Empty: none.
	LocalStoreRoots backupstore.LocalRoots
	// Observer reads what Gardener says about stores.
	Observer Observer
	// Clock tells the time. Nil: the real one.
	Clock clock.Clock
}

// AddToManager adds the controller to a manager whose caches hold Jobs and pods with our labels.
func AddToManager(_ context.Context, mgr manager.Manager, o AddOptions) error {
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Reader:   mgr.GetAPIReader(),
		Observer: o.Observer,
		Images:   o.Images,

		LocalStoreRoots: o.LocalStoreRoots,

		Clock:    o.Clock,
		Recorder: mgr.GetEventRecorder(ControllerName),
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	if o.Controller.ReconciliationTimeout == 0 {
		o.Controller.ReconciliationTimeout = controllerutils.DefaultReconciliationTimeout
	}
	if o.Controller.RateLimiter == nil {
		o.Controller.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 5*time.Minute)
	}
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

// taskForPod maps the pod of a copy to its task; other pods are others' business.
func taskForPod(_ context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[druidv1alpha1.LabelComponentKey] != druidv1alpha1.ComponentNameCopyBackupsJob {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: labels[druidv1alpha1.LabelPartOfKey]}}}
}

// tasksForSecret maps a Secret to the tasks that may wait for it.
func (r *Reconciler) tasksForSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	tasks := &druidv1alpha1.EtcdCopyBackupsTaskList{}
	if err := r.Client.List(ctx, tasks, client.InNamespace(secret.GetNamespace())); err != nil {
		return nil // they look again by themselves
	}
	var requests []reconcile.Request
	for i := range tasks.Items {
		if task := &tasks.Items[i]; !isCompleted(task) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(task)})
		}
	}
	return requests
}
