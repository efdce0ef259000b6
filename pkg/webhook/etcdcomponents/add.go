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

// AddOptions are what the webhook needs beside the manager.
type AddOptions struct {
	// Accounts are who may do what.
	Accounts Accounts
	// Name is that of the operator: of its Service, and of the registration.
	Name string
	// Owner is the ClusterRole that the registration goes with when the operator is uninstalled.
	Owner string
	// Managed is true where the operator issues and renews the certificate, and registers the webhook. Otherwise somebody
	// else puts a certificate into the folder of the server, and registers the webhook.
	Managed bool
	// Server says how the API server reaches the webhook. It must be complete where Managed is true.
	Server *extensionswebhookcmd.ServerConfig
}

// AddToManager serves the webhook in every replica.
func AddToManager(ctx context.Context, mgr manager.Manager, o AddOptions) error {
	mgr.GetWebhookServer().Register(Path, &webhook.Admission{
		Handler:        &Handler{Reader: mgr.GetClient(), Accounts: o.Accounts},
		RecoverPanic:   new(true),
		LogConstructor: admission.DefaultLogConstructor,
	})

	if !o.Managed {
		return nil
	}

	configuration := Configuration(o.Name, extensionswebhook.BuildClientConfigFor(Path, o.Server.Namespace, o.Name, true, o.Server.ServicePort, o.Server.Mode, o.Server.URL, nil), o.Accounts)

	owner := &rbacv1.ClusterRole{}
	if err := mgr.GetAPIReader().Get(ctx, client.ObjectKey{Name: o.Owner}, owner); err != nil {
		return fmt.Errorf("reading the ClusterRole with which the registration of the webhook goes: %w", err)
	}

	configuration.OwnerReferences = []metav1.OwnerReference{{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: owner.Name, UID: owner.UID}}

	return certificates.AddCertificateManagementToManager(ctx, mgr, nil, clock.RealClock{},
		extensionswebhook.Configs{ValidatingWebhookConfig: configuration}, nil, nil, nil, "",
		o.Name, true, o.Server.Namespace, o.Server.Mode, o.Server.URL)
}

// Unregister removes the registration that the operator made when the webhook was switched on. It must not outlive the server:
// it fails closed.
func Unregister(ctx context.Context, c client.Client, name string) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}

	return client.IgnoreNotFound(c.Delete(ctx, configuration))
}
