// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
)

// clusterRole is the ClusterRole of the chart.
const clusterRole = "extensions.gardener.cloud:" + Name

// accountsFor returns the accounts of the configuration. In the namespace of Gardener's components, gardener-resource-manager is exempt
// too: it applies the objects of the operator. The configuration that gardenlet and gardener-operator write for etcd-druid does not name it.
func accountsFor(protection configv1alpha1.EtcdComponentProtectionWebhookConfiguration, namespace string) etcdcomponents.Accounts {
	accounts := etcdcomponents.AccountsFor(protection)
	if namespace == v1beta1constants.GardenNamespace {
		accounts.Exempt = append(accounts.Exempt, fmt.Sprintf("system:serviceaccount:%s:%s", namespace, v1beta1constants.DeploymentNameGardenerResourceManager))
	}

	return accounts
}

// addProtection serves the webhook that protects the objects of Etcds, where that is switched on. Otherwise it takes back what
// an earlier start has registered.
func addProtection(ctx context.Context, mgr manager.Manager, o *Options) error {
	protection := o.Config.Webhooks.EtcdComponentProtection
	if protection.Enabled {
		return etcdcomponents.AddToManager(ctx, mgr, etcdcomponents.AddOptions{
			Accounts:   accountsFor(protection, ownNamespace()),
			Namespaces: o.Config.WatchNamespaces,
			Name:       Name,
			Owner:      clusterRole,
			Managed:    o.Config.Server.Webhooks.ManagedCertificate,
			Server:     o.webhook.Completed(),
		})
	}

	uncached, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("setting up the client of the registration: %w", err)
	}
	if err := etcdcomponents.Unregister(ctx, uncached, Name); !apierrors.IsForbidden(err) {
		return err // without the right to delete it there was none to make it
	}
	return nil
}
