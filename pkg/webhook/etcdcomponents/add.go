// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents

import (
	"context"
	"fmt"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	"github.com/gardener/gardener/extensions/pkg/webhook/certificates"
	extensionswebhookcmd "github.com/gardener/gardener/extensions/pkg/webhook/cmd"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// AddOptions are the options of the webhook.
type AddOptions struct {
	// Accounts are the users with rights on the objects of Etcds.
	Accounts Accounts
	// Namespaces are the namespaces whose Etcds are protected. Empty: all.
	Namespaces []string
	// Name is the name of the operator. Its Service and the webhook configuration have this name.
	Name string
	// Owner is the ClusterRole that owns the webhook configuration, so that an uninstallation of the operator deletes both.
	Owner string
	// Managed is true if the operator issues and renews the certificate, and registers the webhook. Otherwise another
	// component puts a certificate into the directory of the server, and registers the webhook.
	Managed bool
	// Server describes how the API server reaches the webhook. It must be complete if Managed is true.
	Server *extensionswebhookcmd.ServerConfig
}

// AddToManager registers the webhook at the server of every replica.
func AddToManager(ctx context.Context, mgr manager.Manager, o AddOptions) error {
	mgr.GetWebhookServer().Register(Path, &webhook.Admission{
		Handler:        &Handler{Reader: mgr.GetClient(), Accounts: o.Accounts},
		RecoverPanic:   new(true),
		LogConstructor: admission.DefaultLogConstructor,
	})

	if !o.Managed {
		return nil
	}

	configuration := Configuration(o.Name, extensionswebhook.BuildClientConfigFor(Path, o.Server.Namespace, o.Name, true, o.Server.ServicePort, o.Server.Mode, o.Server.URL, nil), o.Accounts, o.Namespaces...)

	owner := &rbacv1.ClusterRole{}
	if err := mgr.GetAPIReader().Get(ctx, client.ObjectKey{Name: o.Owner}, owner); err != nil {
		return fmt.Errorf("reading the ClusterRole that owns the registration of the webhook: %w", err)
	}

	configuration.OwnerReferences = []metav1.OwnerReference{{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: owner.Name, UID: owner.UID}}

	return certificates.AddCertificateManagementToManager(ctx, mgr, nil, clock.RealClock{},
		extensionswebhook.Configs{ValidatingWebhookConfig: configuration}, nil, nil, nil, "",
		o.Name, true, o.Server.Namespace, o.Server.Mode, o.Server.URL)
}

// Unregister deletes the webhook configuration that the operator created while the webhook was enabled. It must not outlive
// the server, because it fails closed.
func Unregister(ctx context.Context, c client.Client, name string) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}

	return client.IgnoreNotFound(c.Delete(ctx, configuration))
}
