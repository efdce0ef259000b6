// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package registration registers the webhooks of the operator, and manages the certificate of their server.
//
// What may not live here: what a webhook selects or decides.
package registration

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	"github.com/gardener/gardener/extensions/pkg/webhook/certificates"
	extensionswebhookcmd "github.com/gardener/gardener/extensions/pkg/webhook/cmd"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Options describe the registration.
type Options struct {
	// Name is the name of the operator. Its Service and the webhook configuration have this name.
	Name string
	// Owner is the ClusterRole that owns the webhook configuration, so that an uninstallation of the operator deletes both.
	Owner string
	// Server describes how the API server reaches the webhooks. It must be complete.
	Server *extensionswebhookcmd.ServerConfig
}

// ClientConfig returns how the API server reaches the webhook with the URL path, without a CA.
func (o Options) ClientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	return extensionswebhook.BuildClientConfigFor(path, o.Server.Namespace, o.Name, true, o.Server.ServicePort, o.Server.Mode, o.Server.URL, nil)
}

// AddToManager lets the leader register the webhooks in one webhook configuration, and issue and renew the certificate of the server. Each replica
// writes the certificate into the directory of its server.
func AddToManager(ctx context.Context, mgr manager.Manager, o Options, webhooks ...admissionregistrationv1.ValidatingWebhook) error {
	owner := &rbacv1.ClusterRole{}
	if err := mgr.GetAPIReader().Get(ctx, client.ObjectKey{Name: o.Owner}, owner); err != nil {
		return fmt.Errorf("reading the ClusterRole that owns the registration of the webhooks: %w", err)
	}

	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: extensionswebhook.InitialWebhookConfig(o.Name), Webhooks: webhooks}
	configuration.OwnerReferences = []metav1.OwnerReference{{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: owner.Name, UID: owner.UID}}

	return certificates.AddCertificateManagementToManager(ctx, mgr, nil, clock.RealClock{},
		extensionswebhook.Configs{ValidatingWebhookConfig: configuration}, nil, nil, nil, "",
		o.Name, true, o.Server.Namespace, o.Server.Mode, o.Server.URL)
}

// pathKey is the key of the Secret with the last segment of a path.
const pathKey = "path"

// SecretPath returns the URL path with a random last segment, which a Secret keeps for all replicas. An API server does not authenticate itself to webhooks.
// Only a reader of the webhook configuration or of the Secret knows the segment, so that no other pod can call the webhook. The API server rejects a path
// with upper-case letters.
func (o Options) SecretPath(ctx context.Context, c client.Client, path string) (string, error) {
	key := client.ObjectKey{Namespace: o.Server.Namespace, Name: o.Name + "-webhook-path"}
	secret := &corev1.Secret{}
	err := c.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string][]byte{pathKey: []byte(strings.ToLower(rand.Text()))}}
		if err = c.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
			err = c.Get(ctx, key, secret)
		}
	}
	if err != nil {
		return "", fmt.Errorf("reading or creating Secret %s with the path of the webhook: %w", key, err)
	}
	if len(secret.Data[pathKey]) == 0 {
		return "", fmt.Errorf("reading the path of the webhook: Secret %s has no key %q: delete the Secret, and the operator creates it again", key, pathKey)
	}

	return path + "/" + string(secret.Data[pathKey]), nil
}

// Unregister deletes the webhook configuration that the operator created while a webhook was enabled. It must not outlive the server, because
// the webhooks that protect objects fail closed.
func Unregister(ctx context.Context, c client.Client, name string) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}

	return client.IgnoreNotFound(c.Delete(ctx, configuration))
}

// NamespaceSelector selects the namespaces. Without a namespace it is nil: all are selected.
func NamespaceSelector(namespaces ...string) *metav1.LabelSelector {
	if len(namespaces) == 0 {
		return nil
	}

	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces}}}
}
