// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
)

// clusterRole is the ClusterRole of the chart.
const clusterRole = "extensions.gardener.cloud:" + Name

// addProtection serves the webhook that protects the objects of Etcds, where that is switched on. Otherwise it takes back what
// an earlier start has registered.
func addProtection(ctx context.Context, mgr manager.Manager, o *Options) error {
	protection := o.Config.Webhooks.EtcdComponentProtection
	if protection.Enabled {
		return etcdcomponents.AddToManager(ctx, mgr, etcdcomponents.AddOptions{
			Accounts:   etcdcomponents.AccountsFor(protection),
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
