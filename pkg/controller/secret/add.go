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
	"github.com/gardener/gardener/pkg/utils/managedresources"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
)

// ControllerName is the name of the controller in logs and metrics.
const ControllerName = "secret"

// NeededIndex is the name of the index of ManagedResources and of EtcdCopyBackupsTasks by the Secrets that need the finalizer.
const NeededIndex = "neededSecrets"

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
	users, changed := handler.EnqueueRequestsFromMapFunc(r.secretsOf), builder.WithPredicates(changesUse())
	b := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(o.Controller).
		For(newSecret(), builder.OnlyMetadata, builder.WithPredicates(r.isRelevant(ctx))).
		Watches(&druidv1alpha1.Etcd{}, users, changed).
		Watches(&resourcesv1alpha1.ManagedResource{}, users, changed)
	if o.CopyTasks {
		b = b.Watches(&druidv1alpha1.EtcdCopyBackupsTask{}, users, changed)
	}
	if err := r.addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}

	return b.Complete(r)
}

// addIndexes makes NeededIndex available to the cache.
func (r *Reconciler) addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &resourcesv1alpha1.ManagedResource{}, NeededIndex, NeededBy); err != nil {
		return fmt.Errorf("indexing ManagedResources by the Secrets of their Etcds: %w", err)
	}
	if !r.CopyTasks {
		return nil
	}
	if err := indexer.IndexField(ctx, &druidv1alpha1.EtcdCopyBackupsTask{}, NeededIndex, NeededBy); err != nil {
		return fmt.Errorf("indexing EtcdCopyBackupsTasks by their Secrets: %w", err)
	}

	return nil
}

// NeededBy returns the values of NeededIndex: the names of the Secrets that an object needs, each once. A ManagedResource needs those of the last
// accepted generation of its Etcd, and a task those of its spec while its Job runs.
func NeededBy(obj client.Object) []string {
	switch typed := obj.(type) {
	case *resourcesv1alpha1.ManagedResource:
		if typed.Labels[managedresources.LabelKeyOrigin] != druidv1alpha1.ManagedResourceOrigin {
			return nil
		}
		names, _ := acceptedSecrets(typed)

		return names
	case *druidv1alpha1.EtcdCopyBackupsTask:
		if copybackups.IsRunning(typed) {
			return helper.SecretsOfCopy(typed)
		}
	}

	return nil
}

// isRelevant passes the events of Secrets that have the finalizer or that need it. Of the Secrets that a secrets manager
// or a BackupEntry owns, it passes only those with the finalizer. Updates that change neither the owner nor the finalizers are no
// events.
func (r *Reconciler) isRelevant(ctx context.Context) predicate.Predicate {
	isRelevant := func(secret client.Object) bool {
		return controllerutil.ContainsFinalizer(secret, druidv1alpha1.EtcdFinalizerName) || !isManaged(secret) && r.isNeeded(ctx, secret)
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

// isNeeded is true if an Etcd or a task needs the Secret. It is true too if the cache cannot be read.
func (r *Reconciler) isNeeded(ctx context.Context, secret client.Object) bool {
	users, err := r.needing(ctx, client.ObjectKeyFromObject(secret))

	return err != nil || len(users.Users) > 0
}

// changesUse passes the events with which an Etcd, its ManagedResource or a task begins or ceases to need Secrets, or to protect them. A new
// Etcd has no accepted generation.
func changesUse() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			_, isEtcd := e.Object.(*druidv1alpha1.Etcd)

			return !isEtcd
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			return protects(e.ObjectOld) != protects(e.ObjectNew) || needsOthers(e.ObjectOld, e.ObjectNew)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// needsOthers is true if an update of an object changes which Secrets it needs. Most updates of a ManagedResource do not change its record.
func needsOthers(before, after client.Object) bool {
	_, isResource := after.(*resourcesv1alpha1.ManagedResource)
	if isResource && before.GetAnnotations()[druidv1alpha1.ManagedResourceAnnotationState] == after.GetAnnotations()[druidv1alpha1.ManagedResourceAnnotationState] {
		return false
	}

	return !slices.Equal(NeededBy(before), NeededBy(after))
}

// secretsOf maps an Etcd, its ManagedResource or a task to the Secrets that it needs, and to all Secrets with the finalizer in its namespace. It
// may have been the last user of any of these. A new ManagedResource also shows that the operator has adopted the Etcd.
func (r *Reconciler) secretsOf(ctx context.Context, user client.Object) []reconcile.Request {
	needed := NeededBy(user)
	if etcd, isEtcd := user.(*druidv1alpha1.Etcd); isEtcd {
		resource := &resourcesv1alpha1.ManagedResource{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, resource); err == nil {
			needed = NeededBy(resource)
		}
	}
	var requests []reconcile.Request
	for _, name := range needed {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: user.GetNamespace(), Name: name}})
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Secrets.List(ctx, list, client.InNamespace(user.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return requests
	}
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], druidv1alpha1.EtcdFinalizerName) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}

	return requests
}
