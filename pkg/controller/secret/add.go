// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
)

// ControllerName is the name of the controller in logs and metrics.
const ControllerName = "secret"

// ReferenceIndex is the name of the index of Etcds and of EtcdCopyBackupsTasks by the Secrets in their specs.
const ReferenceIndex = "spec.protectedSecrets"

// AddOptions are the dependencies of the controller in addition to the manager.
type AddOptions struct {
	// Controller has the number of Secrets that are reconciled concurrently.
	Controller controller.Options
	// CopyTasks is true if EtcdCopyBackupsTasks are users of Secrets. Their CustomResourceDefinition must then exist.
	CopyTasks bool
	// Disabled is true if the operator protects no Secrets. It then removes its finalizers.
	Disabled bool
}

// AddToManager adds the controller to a manager whose caches hold the objects that an Etcd consists of.
func AddToManager(ctx context.Context, mgr manager.Manager, o AddOptions) error {
	r := &Reconciler{Client: mgr.GetClient(), Secrets: mgr.GetCache(), Reader: mgr.GetAPIReader(), CopyTasks: o.CopyTasks, Disabled: o.Disabled}
	o.Controller = queue.WithDefaults(o.Controller, time.Second, 5*time.Minute)
	b := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(o.Controller).
		For(newSecret(), builder.OnlyMetadata, builder.WithPredicates(r.isRelevant(ctx))).
		Watches(&druidv1alpha1.Etcd{}, referenceHandler(IndexReferences)).
		Watches(&resourcesv1alpha1.ManagedResource{}, handler.EnqueueRequestsFromMapFunc(r.protectedNextTo), builder.WithPredicates(createdOrDeleted()))
	if o.CopyTasks {
		b = b.Watches(&druidv1alpha1.EtcdCopyBackupsTask{}, referenceHandler(secretsOfRunningCopy))
	}
	if err := r.addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}

	return b.Complete(r)
}

// addIndexes makes ReferenceIndex available to the cache.
func (r *Reconciler) addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &druidv1alpha1.Etcd{}, ReferenceIndex, IndexReferences); err != nil {
		return fmt.Errorf("indexing Etcds by their Secrets: %w", err)
	}
	if !r.CopyTasks {
		return nil
	}
	if err := indexer.IndexField(ctx, &druidv1alpha1.EtcdCopyBackupsTask{}, ReferenceIndex, IndexReferences); err != nil {
		return fmt.Errorf("indexing EtcdCopyBackupsTasks by their Secrets: %w", err)
	}

	return nil
}

// IndexReferences returns the values of ReferenceIndex: the names of the Secrets in the spec of an Etcd or of a task, each once.
func IndexReferences(obj client.Object) []string {
	if task, isTask := obj.(*druidv1alpha1.EtcdCopyBackupsTask); isTask {
		return helper.SecretsOfCopy(task)
	}

	return referencedBy(obj.(*druidv1alpha1.Etcd))
}

// secretsOfRunningCopy are the Secrets of a task that has not ended.
func secretsOfRunningCopy(obj client.Object) []string {
	task := obj.(*druidv1alpha1.EtcdCopyBackupsTask)
	if helper.IsCopyCompleted(task) {
		return nil
	}

	return helper.SecretsOfCopy(task)
}

// isRelevant passes the events of Secrets that have the finalizer or that a spec references. Of the Secrets that a secrets manager
// or a BackupEntry owns, it passes only those with the finalizer. Updates that change neither the owner nor the finalizers are no
// events.
func (r *Reconciler) isRelevant(ctx context.Context) predicate.Predicate {
	isRelevant := func(secret client.Object) bool {
		return controllerutil.ContainsFinalizer(secret, druidv1alpha1.EtcdFinalizerName) || !isManaged(secret) && r.isReferenced(ctx, secret)
	}

	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return isRelevant(e.Object) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld, e.ObjectNew
			isChanged := !slices.Equal(before.GetFinalizers(), after.GetFinalizers()) ||
				(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
				!maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations())

			return isChanged && isRelevant(after)
		},
	}
}

// isReferenced is true if the spec of an Etcd or of a task references the Secret. It is true too if the cache cannot be read.
func (r *Reconciler) isReferenced(ctx context.Context, secret client.Object) bool {
	users, err := r.referencing(ctx, client.ObjectKeyFromObject(secret))

	return err != nil || len(users.Users) > 0
}

// referenceHandler enqueues the Secrets that an object has begun or ceased to reference. It does so too when the object begins
// or ceases to count: with its finalizer, and with its deletion.
func referenceHandler(referenced func(client.Object) []string) handler.EventHandler {
	enqueue := func(queue workqueue.TypedRateLimitingInterface[reconcile.Request], namespace string, names []string) {
		for _, name := range names {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}})
		}
	}

	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(queue, e.Object.GetNamespace(), referenced(e.Object))
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(queue, e.Object.GetNamespace(), referenced(e.Object))
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if _, isEtcd := e.ObjectNew.(*druidv1alpha1.Etcd); isEtcd && e.ObjectOld.GetGeneration() == e.ObjectNew.GetGeneration() && protects(e.ObjectOld) == protects(e.ObjectNew) {
				return
			}
			before, after := referenced(e.ObjectOld), referenced(e.ObjectNew)
			if slices.Equal(before, after) && protects(e.ObjectOld) == protects(e.ObjectNew) {
				return
			}
			enqueue(queue, e.ObjectNew.GetNamespace(), before)
			enqueue(queue, e.ObjectNew.GetNamespace(), after)
		},
	}
}

// protectedNextTo maps a ManagedResource to the Secrets with the finalizer in its namespace: it shows that the operator has
// adopted the Etcd.
func (r *Reconciler) protectedNextTo(ctx context.Context, resource client.Object) []reconcile.Request {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Secrets.List(ctx, list, client.InNamespace(resource.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], druidv1alpha1.EtcdFinalizerName) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}

	return requests
}

// createdOrDeleted passes creations and deletions only.
func createdOrDeleted() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
