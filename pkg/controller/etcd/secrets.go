// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener/pkg/utils/managedresources"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// secretIndex indexes Etcds by the names of the Secrets that they refer to.
const secretIndex = "spec.secretRefs"

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
func (r *Reconciler) etcdsForSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	requests := r.requestsFor(ctx, client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretIndex: secret.GetName()})
	if entry := secret.GetAnnotations()[backupstore.AnnotationCreatedBy]; entry != "" {
		requests = append(requests, r.etcdsForEntryNamed(ctx, entry)...)
	}
	if name := secret.GetLabels()[druidv1alpha1.LabelPartOfKey]; name != "" && secret.GetLabels()[managedresources.LabelKeyOrigin] == druidv1alpha1.ManagedResourceOrigin {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: secret.GetNamespace(), Name: name}})
	}
	return requests
}

// releaseSecrets removes the finalizer of etcd-druid from the Secrets of an Etcd: with it they could not be deleted any more.
func (r *Reconciler) releaseSecrets(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	for _, name := range secretNames(etcd) {
		secret := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: name}, secret); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return err
		}
		if err := r.releaseSecret(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}

// releaseAllSecrets releases the Secrets of an Etcd, and those in its namespace that no Etcd refers to. etcd-druid leaves
// its finalizer on Secrets to which a spec does not refer any more.
func (r *Reconciler) releaseAllSecrets(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	etcds := &druidv1alpha1.EtcdList{}
	if err := r.Client.List(ctx, etcds, client.InNamespace(etcd.Namespace)); err != nil {
		return fmt.Errorf("listing Etcds: %w", err)
	}
	var others []string
	for i := range etcds.Items {
		if etcds.Items[i].Name != etcd.Name {
			others = append(others, secretNames(&etcds.Items[i])...)
		}
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Client.List(ctx, secrets, client.InNamespace(etcd.Namespace)); err != nil {
		return fmt.Errorf("listing Secrets: %w", err)
	}
	own := secretNames(etcd)
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if slices.Contains(others, secret.Name) && !slices.Contains(own, secret.Name) {
			continue
		}
		if err := r.releaseSecret(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) releaseSecret(ctx context.Context, secret *metav1.PartialObjectMetadata) error {
	before := secret.DeepCopy()
	if !controllerutil.RemoveFinalizer(secret, druidv1alpha1.EtcdFinalizerName) {
		return nil
	}
	if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing Secret %s from the finalizer %s: %w", secret.Name, druidv1alpha1.EtcdFinalizerName, err)
	}
	return nil
}
