// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package app is the operator's command: flags, environment and configuration come in, a running manager with the
// controllers comes out. Decisions about etcd clusters do not live here.
package app

import (
	"context"
	"fmt"

	gardenerhealthz "github.com/gardener/gardener/pkg/healthz"
	"github.com/spf13/cobra"
	"k8s.io/component-base/version/verflag"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/resourcemanager"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/metrics"
)

// NewCommand returns the command that runs the operator until the context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	options := NewOptions()
	cmd := &cobra.Command{
		Use:           Name,
		Short:         "Run etcd clusters that are described by Etcd resources",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(*cobra.Command, []string) error {
			verflag.PrintAndExitIfRequested()
			if err := options.Complete(); err != nil {
				return err
			}
			if err := options.Validate(); err != nil {
				return err
			}
			return run(ctx, options)
		},
	}
	verflag.AddFlags(cmd.Flags())
	options.AddFlags(cmd.Flags())
	cmd.AddCommand(newReleaseSecretsCommand(ctx), newVerifyNetworkPoliciesCommand(ctx))
	return cmd
}

func run(ctx context.Context, o *Options) error {
	logf.SetLogger(o.manager.Completed().Logger)
	if err := limitMemory(); err != nil {
		return err
	}

	mgr, err := newManager(ctx, o)
	if err != nil {
		return fmt.Errorf("setting up the manager: %w", err)
	}
	if err := addChecks(mgr); err != nil {
		return fmt.Errorf("adding health checks: %w", err)
	}
	if o.Config.ResourceManager.Embedded {
		if err := resourcemanager.AddToManager(ctx, mgr, resourcemanager.Options{
			Renderings: &o.renderings,
			Namespaces: o.Config.WatchNamespaces,
			SyncPeriod: o.Config.ResourceManager.SyncPeriod.Duration,
		}); err != nil {
			return fmt.Errorf("adding the embedded resource manager: %w", err)
		}
	}
	if err := o.addControllers(ctx, mgr); err != nil {
		return fmt.Errorf("adding controllers: %w", err)
	}
	if err := measureEtcds(mgr); err != nil {
		return fmt.Errorf("adding metrics: %w", err)
	}
	if err := monitorNetworkPolicies(mgr, o.Config.Rendering.NetworkPolicies); err != nil {
		return fmt.Errorf("adding the check of NetworkPolicies: %w", err)
	}
	if err := addWebhooks(ctx, mgr, o); err != nil {
		return fmt.Errorf("adding the webhooks: %w", err)
	}

	mgr.GetLogger().Info("Starting the operator", "embeddedResourceManager", o.Config.ResourceManager.Embedded, "watchNamespaces", o.Config.WatchNamespaces)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// measureEtcds serves the metrics of all Etcds, in place of those that an earlier run in this process served.
func measureEtcds(mgr manager.Manager) error {
	collector := &metrics.Etcds{Reader: mgr.GetCache()}
	ctrlmetrics.Registry.Unregister(collector)
	return ctrlmetrics.Registry.Register(collector)
}

// addChecks makes /healthz fail when a cache does not come into sync for minutes, and /readyz as long as it is not.
func addChecks(mgr manager.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("informer-sync", gardenerhealthz.NewCacheSyncHealthzWithDeadline(mgr.GetLogger(), clock.RealClock{}, mgr.GetCache(), gardenerhealthz.DefaultCacheSyncDeadline)); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("informer-sync", gardenerhealthz.NewCacheSyncHealthz(mgr.GetCache()))
}
