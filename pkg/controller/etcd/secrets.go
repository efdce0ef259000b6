// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener/pkg/utils/managedresources"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/secret"
)

// secretIndex indexes Etcds by the names of the Secrets that they refer to.
const secretIndex = "spec.secretRefs" // #nosec G101 -- the name of an index

// addSecretIndex makes secretIndex available to a cache.
func addSecretIndex(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &druidv1alpha1.Etcd{}, secretIndex, func(obj client.Object) []string {
		return secretNames(obj.(*druidv1alpha1.Etcd))
	})
}

// secretNames are the names of the Secrets that an Etcd refers to, each once. A spec that is in conflict with itself is
// indexed as far as it can be understood.
func secretNames(etcd *druidv1alpha1.Etcd) []string {
	canonical, errs := helper.Canonical(etcd)
	if len(errs) > 0 || canonical == nil {
		canonical = etcd
	}
	return helper.ReferencedSecrets(canonical)
}

// etcdsForSecret maps a Secret to the Etcds that refer to it, whose BackupEntry it was made for, or whose payload it is.
func (r *Reconciler) etcdsForSecret(ctx context.Context, obj client.Object) []reconcile.Request {
	requests := r.requestsFor(ctx, client.InNamespace(obj.GetNamespace()), client.MatchingFields{secretIndex: obj.GetName()})
	if entry := obj.GetAnnotations()[backupstore.AnnotationCreatedBy]; entry != "" {
		requests = append(requests, r.etcdsForEntryNamed(ctx, entry)...)
	}
	if name := obj.GetLabels()[druidv1alpha1.LabelPartOfKey]; name != "" && obj.GetLabels()[managedresources.LabelKeyOrigin] == druidv1alpha1.ManagedResourceOrigin {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}})
	}
	return requests
}

// releaseSecrets removes the finalizer from the Secrets that only this Etcd used, before the Etcd disappears. The controller of
// Secrets would do so later, which is too late if the operator is uninstalled meanwhile.
func (r *Reconciler) releaseSecrets(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	return (&secret.Reconciler{Client: r.Client, Reader: r.Reader, CopyTasks: r.CopyTasks}).ReleaseFor(ctx, etcd)
}
