// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// ensureBundles writes the Secrets with the combined CA bundles of the target. Their content never changes. The resource manager does not write them,
// since it would have to watch all Secrets for this purpose.
func (r *execution) ensureBundles(ctx context.Context, run *engine.Run) error {
	for _, bundle := range run.Target.CAChange.Bundles {
		if err := r.ensureBundle(ctx, run, bundle); err != nil {
			return err
		}
		if bundle.ForClients {
			if err := r.publishBundle(ctx, run, bundle); err != nil {
				return err
			}
		}
	}
	return nil
}

// publishBundle writes a CA bundle to the Secret with which applications connect. Until members change to certificates of the user, that Secret has an
// issued certificate. While they change to issued ones, it exists as soon as all members accept its certificate.
func (r *execution) publishBundle(ctx context.Context, run *engine.Run, bundle target.CABundle) error {
	switch {
	case run.Target.TLS.Client != state.ModeManaged:
		return r.extendConnection(ctx, run, bundle.PEM)
	case bundle.IsMounted:
		return r.ensureConnection(ctx, run, bundle.PEM)
	default:
		return nil
	}
}

func (r *execution) ensureBundle(ctx context.Context, run *engine.Run, bundle target.CABundle) error {
	etcd := run.Target.Etcd
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: etcd.Namespace, Name: bundle.Name, Labels: bundleLabels(etcd), OwnerReferences: []metav1.OwnerReference{helper.OwnerReference(etcd)},
		},
		Type: corev1.SecretTypeOpaque, Immutable: new(true), Data: map[string][]byte{etcdcluster.BundleKey: bundle.PEM},
	}
	existing := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(secret), existing)
	if apierrors.IsNotFound(err) {
		if err = r.Client.Create(ctx, secret); err == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", bundle.Name, err)
	}
	if !isSecretOf(existing, run.Target.Stored, druidv1alpha1.ComponentNameCABundle) {
		return target.RefuseForeign(druidv1alpha1.ErrorCodeSyncSecrets, run.Target.Stored, "Secret "+bundle.Name)
	}
	return nil
}

// extendConnection writes a CA bundle to the Secret with which applications connect, if it exists.
func (r *execution) extendConnection(ctx context.Context, run *engine.Run, bundle []byte) error {
	key := client.ObjectKey{Namespace: run.Target.Etcd.Namespace, Name: secrets.ConnectionName(run.Target.Etcd)}
	if exists, err := r.payloadExists(ctx, key.Namespace, key.Name); err != nil || !exists {
		return err
	}
	connection := &corev1.Secret{}
	if err := r.Reader.Get(ctx, key, connection); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !isSecretOf(connection, run.Target.Stored, druidv1alpha1.ComponentNameConnection) || bytes.Equal(connection.Data[connectionCA], bundle) {
		return nil
	}
	before := connection.DeepCopy()
	connection.Data[connectionCA] = bundle
	if err := r.Client.Patch(ctx, connection, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing Secret %s: %w", key.Name, err)
	}
	return nil
}

func bundleLabels(etcd *druidv1alpha1.Etcd) map[string]string {
	labels := helper.DefaultLabels(etcd)
	labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameCABundle
	return labels
}

// deleteBundles deletes the Secrets with combined CA bundles of an Etcd that are not in use.
func (r *Reconciler) deleteBundles(ctx context.Context, reader client.Reader, etcd *druidv1alpha1.Etcd, used []string) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := reader.List(ctx, list, client.InNamespace(etcd.Namespace), client.MatchingLabels(bundleLabels(etcd))); err != nil {
		return fmt.Errorf("listing the Secrets with combined CA bundles: %w", err)
	}
	for index := range list.Items {
		secret := &list.Items[index]
		if slices.Contains(used, secret.Name) || !isSecretOf(secret, etcd, druidv1alpha1.ComponentNameCABundle) {
			continue
		}
		if err := r.deleteObject(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}
