// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"fmt"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// Keys of the Secret with which applications connect.
const (
	connectionEndpoints = "endpoints"
	connectionCA        = "ca.crt"
)

// ensureIssuedConnection writes the Secret with which applications connect, with the bundle of the issued CAs.
func (r *execution) ensureIssuedConnection(ctx context.Context, run *engine.Run) error {
	bundle, found := r.issuedFor(run).manager.Get(secrets.ConfigNamesFor(run.Target.Etcd.Name).ClientCA, secretsmanager.Bundle)
	if !found {
		return fmt.Errorf("there is no CA for Secret %s", secrets.ConnectionName(run.Target.Etcd))
	}
	return r.ensureConnection(ctx, run, bundle.Data[secretsutils.DataKeyCertificateBundle])
}

// ensureConnection writes the Secret with which applications connect: its name never changes. Its certificate is only for applications,
// and no pod of the cluster mounts it. ca is the bundle in PEM that verifies all members now. Its port is the active client port of the members, which may
// differ from that of the spec.
func (r *execution) ensureConnection(ctx context.Context, run *engine.Run, ca []byte) error {
	certificate := r.issuedFor(run).secrets[secrets.ConfigNamesFor(run.Target.Etcd.Name).Application]
	if certificate == nil {
		return fmt.Errorf("there is no certificate of applications for Secret %s", secrets.ConnectionName(run.Target.Etcd))
	}

	port := cmp.Or(run.Observation.ActiveClientPort(), helper.ClientPort(run.Target.Etcd))
	connection := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: run.Target.Etcd.Namespace, Name: secrets.ConnectionName(run.Target.Etcd)}}
	_, err := controllerutil.CreateOrPatch(ctx, r.Client, connection, func() error {
		if connection.ResourceVersion != "" && !isSecretOf(connection, run.Target.Stored, druidv1alpha1.ComponentNameConnection) {
			return target.RefuseForeign(druidv1alpha1.ErrorCodeSyncSecrets, run.Target.Stored, "Secret "+connection.Name)
		}
		connection.Labels = helper.DefaultLabels(run.Target.Etcd)
		connection.Labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameConnection
		connection.OwnerReferences = []metav1.OwnerReference{helper.OwnerReference(run.Target.Etcd)}
		connection.Type = corev1.SecretTypeOpaque
		connection.Data = map[string][]byte{
			connectionEndpoints:     []byte(fmt.Sprintf("https://%s.%s.svc:%d", helper.ClientServiceName(run.Target.Etcd), run.Target.Etcd.Namespace, port)),
			connectionCA:            ca,
			corev1.TLSCertKey:       certificate.Data[corev1.TLSCertKey],
			corev1.TLSPrivateKeyKey: certificate.Data[corev1.TLSPrivateKeyKey],
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", connection.Name, err)
	}
	return nil
}

// isSecretOf is true for a Secret with the component that was written for the Etcd, or for an earlier one of its name.
func isSecretOf(secret metav1.Object, etcd *druidv1alpha1.Etcd, component string) bool {
	return secret.GetLabels()[druidv1alpha1.LabelComponentKey] == component && helper.IsManagedFor(secret, etcd)
}

// deleteConnection deletes the Secret with which applications connect, and nothing else of that name.
func (r *Reconciler) deleteConnection(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	connection := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: secrets.ConnectionName(etcd)}, connection); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading Secret %s: %w", secrets.ConnectionName(etcd), err)
	}
	if !isSecretOf(connection, etcd, druidv1alpha1.ComponentNameConnection) {
		return nil
	}
	return r.deleteObject(ctx, connection)
}

// deleteIssued deletes the Secrets that were issued for an Etcd, the one with which applications connect, and those with combined CA bundles.
func (r *Reconciler) deleteIssued(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	if err := r.deleteConnection(ctx, etcd); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteSecrets, err)
	}
	if err := r.deleteBundles(ctx, r.Reader, etcd, nil); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteSecrets, err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Reader.List(ctx, list, client.InNamespace(etcd.Namespace), client.MatchingLabels{
		secretsmanager.LabelKeyManagedBy:       secretsmanager.LabelValueSecretsManager,
		secretsmanager.LabelKeyManagerIdentity: secrets.Identity(etcd.Name),
	}); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteSecrets, fmt.Errorf("listing issued Secrets: %w", err))
	}
	for index := range list.Items {
		if err := r.deleteObject(ctx, &list.Items[index]); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeDeleteSecrets, err)
		}
	}
	return nil
}
