// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	extensionscmdcontroller "github.com/gardener/gardener/extensions/pkg/controller/cmd"
	"github.com/gardener/gardener/extensions/pkg/controller/heartbeat"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/gardener-extension-etcd-druid/imagevector"
	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/restoredrill"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/rollouts"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/secret"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// callTimeout bounds one call to a member of a cluster.
const callTimeout = 2 * time.Second

// heartbeatController is the name by which --disable-controllers knows the controller that renews the heartbeat.
const heartbeatController = heartbeat.ControllerName

// switches are the controllers that can be switched on and off by name. They are called after Complete.
func (o *Options) switches() []extensionscmdcontroller.NameToAddToManagerFunc {
	return []extensionscmdcontroller.NameToAddToManagerFunc{
		extensionscmdcontroller.Switch(heartbeatController, o.addHeartbeat),
		extensionscmdcontroller.Switch(etcd.ControllerName, o.addEtcd),
		extensionscmdcontroller.Switch(care.ControllerName, o.addCare),
		extensionscmdcontroller.Switch(compaction.ControllerName, o.addCompaction),
		extensionscmdcontroller.Switch(opstask.ControllerName, o.addOpsTask),
		extensionscmdcontroller.Switch(restoredrill.ControllerName, o.addRestoreDrill),
		extensionscmdcontroller.Switch(copybackups.ControllerName, o.addCopyBackups),
		extensionscmdcontroller.Switch(secret.ControllerName, o.addSecret),
	}
}

// addControllers adds the enabled controllers. While a seed is handed back, none of them may reconcile Etcds.
func (o *Options) addControllers(ctx context.Context, mgr manager.Manager) error {
	if o.Config.Predecessor != configv1alpha1.PredecessorGiveBack {
		return o.controllers.Completed().AddToManager(ctx, mgr)
	}
	if !o.isEnabled(heartbeatController) {
		return nil
	}
	return o.addHeartbeat(ctx, mgr)
}

func (o *Options) addHeartbeat(ctx context.Context, mgr manager.Manager) error {
	uncached, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("setting up the client of the heartbeat: %w", err)
	}
	o.heartbeat.Completed().Apply(&heartbeat.DefaultAddOptions)
	return heartbeat.AddToManager(ctx, uncachedManager{Manager: mgr, client: uncached})
}

// uncachedManager returns a client that reads from the API server. The caches hold only the Leases of Etcds, and the
// heartbeat has its own Lease.
type uncachedManager struct {
	manager.Manager
	client client.Client
}

func (m uncachedManager) GetClient() client.Client { return m.client }

func (o *Options) addEtcd(ctx context.Context, mgr manager.Manager) error {
	defaults, err := renderingDefaults(o.Config.Rendering)
	if err != nil {
		return err
	}
	shared, err := o.sharedObserver(ctx, mgr)
	if err != nil {
		return err
	}
	options := etcd.AddOptions{
		Config: target.Config{
			EtcdHelper:       etcdHelper(ctx, mgr.GetAPIReader(), mgr.GetLogger(), o.Config.EtcdHelper),
			AutoReconcile:    o.Config.Controllers.Etcd.EnableEtcdSpecAutoReconcile,
			Defaults:         defaults,
			EtcdVersion:      defaultEtcdVersion(o.Config),
			NewEtcdVersion:   o.Config.Controllers.Etcd.NewEtcdVersion,
			RestrictsNewOnly: o.Config.Rendering.NetworkPolicyScope == configv1alpha1.NetworkPolicyScopeNew,
			LocalStoreRoots:  localStoreRoots(o.Config.LocalStore, shared.Gardener),
			Restrictions:     shared.Restrictions,
			StoreTimeout:     o.Config.Controllers.Etcd.StoreTimeout.Duration,
			UpdateStrategy:   o.Config.Controllers.Etcd.DefaultUpdateStrategy,

			RecoveryDwellTime:   o.Config.Controllers.Etcd.Recovery.DwellTime.Duration,
			RecoveryMaxClusters: *o.Config.Controllers.Etcd.Recovery.MaxClusters,
		},
		Observer: shared,
		Gardener: shared.Gardener,
		Garden:   shared.Garden,
		Locks:    o.sharedLocks(),
		Stores:   o.sharedStores(),
		Versions: o.versions,

		CopyTasks: o.Config.Controllers.EtcdCopyBackupsTask.Enabled,
	}
	if o.Config.ResourceManager.Embedded {
		options.Renderings = &o.renderings
	}
	if limits := rolloutLimits(o.Config.Controllers.Etcd.Rollout); limits != nil {
		options.Config.Rollout = limits
		options.Rollouts = rollouts.NewCoordinator(&observer.Fleet{Observer: shared}, *limits, clock.RealClock{})
	}
	o.etcd.Completed().Apply(&options.Controller)
	return etcd.AddToManager(ctx, mgr, options)
}

// rolloutLimits are the limits of the rollout of new defaults. Nil: there are none.
func rolloutLimits(config configv1alpha1.RolloutConfiguration) *rollout.Limits {
	if !*config.Enabled {
		return nil
	}
	return &rollout.Limits{
		Total: rollout.Limit(*config.Total), PerZone: rollout.Limit(*config.PerZone), PerChange: rollout.Limit(*config.PerChange),
		Canaries: *config.Canaries, CanaryPeriod: config.CanaryPeriod.Duration, Timeout: config.Timeout.Duration,
	}
}

func (o *Options) addCare(ctx context.Context, mgr manager.Manager) error {
	shared, err := o.sharedObserver(ctx, mgr)
	if err != nil {
		return err
	}
	options := care.AddOptions{
		Config:   care.ConfigFor(o.Config.Controllers.Etcd),
		Observer: shared,
		Members:  shared,
		Versions: o.versions,
	}
	o.care.Completed().Apply(&options.Controller)
	return care.AddToManager(ctx, mgr, options)
}

// addCompaction adds the controller of snapshot compactions. It is also added if compaction is disabled, because tasks
// can request a compaction.
func (o *Options) addCompaction(ctx context.Context, mgr manager.Manager) error {
	shared, err := o.sharedObserver(ctx, mgr)
	if err != nil {
		return err
	}
	options := compaction.AddOptions{
		Config:   compaction.ConfigFor(o.Config.Controllers.Compaction),
		Observer: shared,
		Versions: o.versions,
	}
	options.Config.LocalStoreRoots, options.Config.Restrictions = localStoreRoots(o.Config.LocalStore, shared.Gardener), shared.Restrictions
	o.compaction.Completed().Apply(&options.Controller)
	return compaction.AddToManager(ctx, mgr, options)
}

// addOpsTask adds the controllers of tasks.
func (o *Options) addOpsTask(ctx context.Context, mgr manager.Manager) error {
	shared, err := o.sharedObserver(ctx, mgr)
	if err != nil {
		return err
	}
	options := opstask.AddOptions{
		RequeueInterval: o.Config.Controllers.EtcdOpsTask.RequeueInterval.Duration,
		JobDeadline:     o.Config.Controllers.Compaction.ActiveDeadlineDuration.Duration,
		Observer:        shared,
		Locks:           o.sharedLocks(),
		Drills: opstask.Drills{
			EtcdHelper:      etcdHelper(ctx, mgr.GetAPIReader(), mgr.GetLogger(), o.Config.EtcdHelper),
			LocalStoreRoots: localStoreRoots(o.Config.LocalStore, shared.Gardener),
			Restrictions:    shared.Restrictions,
		},
	}
	o.opsTask.Completed().Apply(&options.Controller)
	return opstask.AddToManager(ctx, mgr, options)
}

// addRestoreDrill adds the controller of restore drills. It is also added if none is scheduled, because tasks can request a drill.
func (o *Options) addRestoreDrill(ctx context.Context, mgr manager.Manager) error {
	return restoredrill.AddToManager(ctx, mgr, restoredrill.AddOptions{Config: restoredrill.ConfigFor(o.Config.Controllers.RestoreDrill)})
}

// addSecret adds the controller of the finalizers of Secrets. It is also added if the protection is disabled: it then removes them.
func (o *Options) addSecret(ctx context.Context, mgr manager.Manager) error {
	return secret.AddToManager(ctx, mgr, secret.AddOptions{
		Controller: controller.Options{MaxConcurrentReconciles: *o.Config.Controllers.Secret.ConcurrentSyncs},
		CopyTasks:  o.Config.Controllers.EtcdCopyBackupsTask.Enabled,
		Disabled:   o.Config.Controllers.Secret.DisableProtection,
	})
}

// localStoreRoots are the directories of nodes that Local stores may use. Gardener's local setup has one by convention, and gardenlet's
// configuration of etcd-druid cannot name it.
func localStoreRoots(config configv1alpha1.LocalStoreConfiguration, gardener bool) backupstore.LocalRoots {
	if config.Roots == nil && gardener {
		return backupstore.LocalRoots{backupstore.DefaultHostPath}
	}
	return config.Roots
}

// renderingDefaults are what Etcds are rendered with that are accepted from now on. The environment variable IMAGEVECTOR_OVERWRITE replaces
// images.
func renderingDefaults(config configv1alpha1.RenderingConfiguration) (state.Defaults, error) {
	sets, err := imagevector.Sets()
	if err != nil {
		return state.Defaults{}, fmt.Errorf("finding images: %w", err)
	}
	return state.Defaults{
		ImageSets:          sets,
		IPFamilies:         config.IPFamilies,
		NamespaceSelectors: config.NamespaceSelectors,
		NetworkPolicies:    (*state.NetworkPolicies)(config.NetworkPolicies),
	}, nil
}

// defaultEtcdVersion is the minor version of etcd of clusters whose spec has none.
func defaultEtcdVersion(config *configv1alpha1.OperatorConfiguration) string {
	if config.IsEnabled(configv1alpha1.FeatureUpgradeEtcdVersion) {
		return etcdversion.Newest()
	}
	return etcdversion.V34
}

// sharedObserver returns the only observer of the process. It caches what it reads and keeps its connections. It reads
// from the caches directly: the client would request the metadata of each Secret from the API server.
func (o *Options) sharedObserver(ctx context.Context, mgr manager.Manager) (*observer.Observer, error) {
	o.observerOnce.Do(func() {
		shared := &observer.Observer{
			DryRun:    mgr.GetClient(),
			Reader:    mgr.GetCache(),
			APIReader: mgr.GetAPIReader(),
			Etcd:      etcdclient.NewPool(callTimeout, clock.RealClock{}),
			Sidecars:  sidecar.HTTP{},
			Copies:    o.Config.Controllers.EtcdCopyBackupsTask.Enabled,

			Restrictions: restrictions.Restrictions(o.Config.Restrictions),
		}
		if o.observerErr = shared.Detect(ctx, mgr.GetRESTMapper(), mgr.GetFieldIndexer()); o.observerErr != nil {
			return
		}
		if len(o.Config.WatchNamespaces) > 0 && (shared.Gardener || shared.Garden) {
			o.observerErr = errors.New("watchNamespaces: the cluster has the CustomResourceDefinitions of Gardener, where each shoot has its own namespace: leave the list empty, or delete these CustomResourceDefinitions if the cluster is no seed")

			return
		}
		shared.LocalStoreRoots = localStoreRoots(o.Config.LocalStore, shared.Gardener)
		o.observer = shared
	})
	return o.observer, o.observerErr
}

// sharedLocks returns the ClusterLocks that the controllers of this process share.
func (o *Options) sharedLocks() *calls.ClusterLocks {
	o.locksOnce.Do(func() { o.locks = calls.NewClusterLocks(clock.RealClock{}) })

	return o.locks
}

// sharedStores returns the reservations of stores that the controllers share.
func (o *Options) sharedStores() *calls.StoreReservations {
	o.storesOnce.Do(func() { o.stores = calls.NewStoreReservations(clock.RealClock{}) })

	return o.stores
}
