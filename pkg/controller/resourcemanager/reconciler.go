// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	reconcilerutils "github.com/gardener/gardener/pkg/controllerutils/reconciler"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/managedresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// reconciler decides which ManagedResources are applied. Gardener's reconciler applies them, with clients for the one ManagedResource
// and its Etcd.
type reconciler struct {
	manager ManagerOn
	// etcds reads Etcds from the caches of the operator.
	etcds      client.Reader
	renderings *Renderings
	// application is Gardener's reconciler without clients.
	application managedresource.Reconciler
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.manager.GetClient().Get(ctx, request.NamespacedName, mr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	etcd := &druidv1alpha1.Etcd{}
	if err := r.etcds.Get(ctx, etcdKey(request.NamespacedName), etcd); apierrors.IsNotFound(err) {
		etcd = nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the Etcd of the ManagedResource: %w", err)
	}
	latest := r.renderings.of(request.NamespacedName)
	if reason := decide(mr, etcd, latest); reason != "" {
		logf.FromContext(ctx).Info("ManagedResource is not applied", "reason", reason)

		return reconcile.Result{}, nil
	}

	return reconcilerutils.OperationAnnotationWrapper(r.manager, func() client.Object { return &resourcesv1alpha1.ManagedResource{} }, r.applicationFor(request.NamespacedName, etcd, latest)).
		Reconcile(ctx, request)
}

// applicationFor returns Gardener's reconciler with clients that permit only what belongs to the Etcd of a ManagedResource. Gardener's
// reconciler reads the ManagedResource again, and its clients check it again. The Etcd is nil if there is none.
func (r *reconciler) applicationFor(mr client.ObjectKey, etcd *druidv1alpha1.Etcd, latest rendering) reconcile.Reconciler {
	none, live := refusing{Client: r.manager.GetClient()}, r.manager.GetAPIReader()
	application := r.application
	application.SourceClient = manifests{managedResources: managedResources{none}, live: live, namespace: mr.Namespace, etcd: etcd, latest: latest}
	if etcd == nil {
		key := etcdKey(mr)
		etcd = &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	}
	application.TargetClient = target{refusing: none, live: live, etcd: etcd}

	return &application
}
