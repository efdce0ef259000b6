// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/eviction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/registration"
)

// clusterRole is the ClusterRole of the chart.
const clusterRole = "extensions.gardener.cloud:" + Name

// delaysEvictions is true if the operator serves and registers the webhook for evictions. Without the certificate that the operator manages, the
// server may have none. An operator that does not reconcile Etcds would not replace the member while the eviction waits.
func (o *Options) delaysEvictions() bool {
	return *o.Config.Webhooks.Eviction.Enabled && o.Config.Server.Webhooks.ManagedCertificate &&
		o.Config.Predecessor != configv1alpha1.PredecessorGiveBack && o.isEnabled(etcd.ControllerName)
}

// registersWebhooks is true if the operator manages the certificate of the server, and registers at least one webhook.
func (o *Options) registersWebhooks() bool {
	return o.Config.Server.Webhooks.ManagedCertificate && (o.Config.Webhooks.EtcdComponentProtection.Enabled || o.delaysEvictions())
}

// addWebhooks serves the enabled webhooks. It also registers them if the operator manages the certificate. Otherwise another component does. If
// no webhook is enabled, it deletes the registration of an earlier start.
func addWebhooks(ctx context.Context, mgr manager.Manager, o *Options) error {
	protection, namespaces := o.Config.Webhooks.EtcdComponentProtection, o.Config.WatchNamespaces
	if !protection.Enabled && !o.delaysEvictions() {
		return unregister(ctx, mgr)
	}
	options := registration.Options{Name: Name, Owner: clusterRole, Server: o.webhook.Completed()}
	var webhooks []admissionregistrationv1.ValidatingWebhook
	if protection.Enabled {
		accounts := accountsFor(protection, ownNamespace())
		etcdcomponents.AddToManager(mgr, accounts)
		webhooks = append(webhooks, etcdcomponents.Webhooks(options.ClientConfig, accounts, namespaces...)...)
	}
	if o.delaysEvictions() {
		path, err := options.SecretPath(ctx, mgr.GetClient(), eviction.Path)
		if err != nil {
			return err
		}
		eviction.AddToManager(mgr, path, o.Config.Controllers.Etcd.DefaultUpdateStrategy)
		webhooks = append(webhooks, eviction.Webhooks(options.ClientConfig, path, namespaces...)...)
	}
	if !o.registersWebhooks() {
		return nil
	}

	return registration.AddToManager(ctx, mgr, options, webhooks...)
}

func unregister(ctx context.Context, mgr manager.Manager) error {
	uncached, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("setting up the client of the registration: %w", err)
	}
	if err := registration.Unregister(ctx, uncached, Name); !apierrors.IsForbidden(err) {
		return err // without the right to delete it there was none to make it
	}

	return nil
}
