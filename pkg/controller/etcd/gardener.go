// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	"github.com/gardener/gardener/pkg/extensions"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// storeIndex indexes Etcds by the BackupEntry that their store depends on: by its name, or by anyEntry where the namespace
// decides.
const storeIndex = "spec.backup.store/backupEntry"

// anyEntry is the value of Etcds whose store depends on whatever entry the namespace has. No entry has such a name.
const anyEntry = "*"

// addStoreIndex makes storeIndex available to a cache.
func addStoreIndex(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &druidv1alpha1.Etcd{}, storeIndex, func(obj client.Object) []string {
		return storeIndexOf(obj.(*druidv1alpha1.Etcd))
	})
}

func storeIndexOf(etcd *druidv1alpha1.Etcd) []string {
	canonical, _ := helper.Canonical(etcd) // indexed as far as it can be understood
	store := canonical.Spec.Backup.Store
	if store == nil || !backupstore.NeedsEntry(*store) {
		return nil
	}
	if name := backupstore.NamedEntry(*store, etcd.Namespace); name != "" {
		return []string{name}
	}
	return []string{anyEntry}
}

// watchGardener triggers a reconciliation when the rotation of the shoot advances, or the BackupEntry changes.
func (r *Reconciler) watchGardener(b *builder.Builder) *builder.Builder {
	return b.
		Watches(&extensionsv1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.etcdsForCluster), builder.WithPredicates(rotationChanged())).
		Watches(&extensionsv1alpha1.BackupEntry{}, handler.EnqueueRequestsFromMapFunc(r.etcdsForBackupEntry), builder.WithPredicates(contentChanged()))
}

// watchGarden triggers reconciliations of the Etcds in the namespace garden when the CA rotation of the Garden advances.
func (r *Reconciler) watchGarden(b *builder.Builder) *builder.Builder {
	return b.Watches(&operatorv1alpha1.Garden{}, handler.EnqueueRequestsFromMapFunc(r.etcdsForGarden), builder.WithPredicates(rotationChanged()))
}

// etcdsForGarden maps the Garden to the Etcds of the virtual garden.
func (r *Reconciler) etcdsForGarden(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requestsFor(ctx, client.InNamespace(v1beta1constants.GardenNamespace))
}

// etcdsForCluster maps a Cluster to the Etcds of its namespace.
func (r *Reconciler) etcdsForCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.requestsFor(ctx, client.InNamespace(cluster.GetName()))
}

// etcdsForBackupEntry maps an entry to the Etcds that name it, and to those that use whatever entry its namespace has.
func (r *Reconciler) etcdsForBackupEntry(ctx context.Context, entry client.Object) []reconcile.Request {
	return r.etcdsForEntryNamed(ctx, entry.GetName())
}

func (r *Reconciler) etcdsForEntryNamed(ctx context.Context, name string) []reconcile.Request {
	return append(
		r.requestsFor(ctx, client.MatchingFields{storeIndex: name}),
		r.requestsFor(ctx, client.InNamespace(backupstore.EntryNamespace(name)), client.MatchingFields{storeIndex: anyEntry})...,
	)
}

func (r *Reconciler) requestsFor(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	etcds := &druidv1alpha1.EtcdList{}
	if err := r.Client.List(ctx, etcds, options...); err != nil {
		return nil // from a cache that has not synchronized: its first list triggers a reconciliation of each Etcd
	}
	requests := make([]reconcile.Request, 0, len(etcds.Items))
	for i := range etcds.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&etcds.Items[i])})
	}
	return requests
}

// rotationChanged passes creations and deletions of Clusters and Gardens, and updates that advance the rotation of CAs. gardenlet writes
// Clusters with every change of a Shoot, and gardener-operator the status of the Garden all the time.
func rotationChanged() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return rotationIn(e.ObjectOld) != rotationIn(e.ObjectNew)
		},
	}
}

func rotationIn(obj client.Object) string {
	switch object := obj.(type) {
	case *extensionsv1alpha1.Cluster:
		shoot, err := extensions.ShootFromCluster(object)
		if err != nil || shoot == nil || shoot.Status.Credentials == nil || shoot.Status.Credentials.Rotation == nil {
			return ""
		}
		return describeRotation(shoot.Status.Credentials.Rotation.CertificateAuthorities)
	case *operatorv1alpha1.Garden:
		if object.Status.Credentials == nil || object.Status.Credentials.Rotation == nil {
			return ""
		}
		return describeRotation(object.Status.Credentials.Rotation.CertificateAuthorities)
	default:
		return ""
	}
}

func describeRotation(rotation *gardencorev1beta1.CARotation) string {
	if rotation == nil {
		return ""
	}
	parts := []string{string(rotation.Phase)}
	if rotation.LastInitiationTime != nil {
		parts = append(parts, rotation.LastInitiationTime.UTC().String())
	}
	return strings.Join(parts, " ")
}
