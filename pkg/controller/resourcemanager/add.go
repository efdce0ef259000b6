// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"fmt"
	"time"

	resourcemanagerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/resourcemanager/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	predicateutils "github.com/gardener/gardener/pkg/controllerutils/predicate"
	resourcemanagerclient "github.com/gardener/gardener/pkg/resourcemanager/client"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/garbagecollector"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/garbagecollector/references"
	healthcontrollers "github.com/gardener/gardener/pkg/resourcemanager/controller/health"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/managedresource"
	resourcemanagerpredicate "github.com/gardener/gardener/pkg/resourcemanager/predicate"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Options are the options of the embedded controllers.
type Options struct {
	// Renderings are the renderings that may be applied. The controller etcd of the same process must write them.
	Renderings *Renderings
	// Namespaces are the namespaces whose ManagedResources are applied. Empty: all.
	Namespaces []string
	// SyncPeriod is the time after which every ManagedResource is applied again without an event. It also limits the duration
	// of one application. Zero means one hour.
	SyncPeriod time.Duration
	// ConcurrentSyncs is the number of ManagedResources that are reconciled concurrently. Zero means 5.
	ConcurrentSyncs int
	// RequeueOnDeletion is the time between two checks of objects that are being deleted. Zero means 5 seconds.
	RequeueOnDeletion time.Duration
}

// AddToManager adds the controllers of gardener-resource-manager for application, health and garbage collection. They handle only the
// ManagedResources of Etcds, and run only while the manager is the leader. It returns an error if the cluster has its own
// gardener-resource-manager: both would write the same finalizers and objects.
func AddToManager(ctx context.Context, mgr manager.Manager, o Options) error {
	others, err := FindInstalled(ctx, mgr.GetAPIReader())
	if err != nil {
		return err
	}
	for _, other := range others {
		mgr.GetLogger().Info("A Deployment has the name of a gardener-resource-manager; if it applies ManagedResources of the class seed, disable the embedded resource manager", "deployment", other)
	}

	// The scheme of Gardener's controllers registers other types for the kinds of this operator. They therefore need a separate
	// cluster object.
	seed, err := newCluster(mgr, o.Namespaces)
	if err != nil {
		return fmt.Errorf("setting up caches: %w", err)
	}
	if err := mgr.Add(seed); err != nil {
		return fmt.Errorf("adding caches to the manager: %w", err)
	}

	return addControllers(ctx, mgr, seed, o)
}

// clusterWith is a cluster object with another client, and only the kinds that the operator renders.
type clusterWith struct {
	cluster.Cluster
	client client.Client
}

func (c clusterWith) GetClient() client.Client { return c.client }
func (c clusterWith) GetRESTMapper() meta.RESTMapper {
	return renderedKinds{RESTMapper: c.Cluster.GetRESTMapper()}
}

// newCluster returns caches that hold only objects of Etcds, ManagedResources of this operator, and their payloads.
func newCluster(mgr manager.Manager, namespaces []string) (cluster.Cluster, error) {
	return cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme = resourcemanagerclient.CombinedScheme
		o.Logger = mgr.GetLogger()
		o.Cache = cacheOptions(namespaces)
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Event{}}}
	})
}

func cacheOptions(namespaces []string) cache.Options {
	origin := labels.Set{managedresources.LabelKeyOrigin: druidv1alpha1.ManagedResourceOrigin}
	payloads := labels.Merge(origin, labels.Set{references.LabelKeyGarbageCollectable: references.LabelValueGarbageCollectable})
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&resourcesv1alpha1.ManagedResource{}: {Label: labels.SelectorFromSet(origin)},
			// The garbage collector reads only metadata.
			&corev1.Secret{}: {Label: labels.SelectorFromSet(payloads)},
		},
	}
	for _, object := range renderedObjects {
		options.ByObject[object] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{druidv1alpha1.LabelManagedByKey: druidv1alpha1.LabelManagedByValue})}
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}

	return options
}

func (o Options) withDefaults() Options {
	if o.SyncPeriod == 0 {
		o.SyncPeriod = time.Hour
	}
	if o.ConcurrentSyncs == 0 {
		o.ConcurrentSyncs = 5
	}
	if o.RequeueOnDeletion == 0 {
		o.RequeueOnDeletion = 5 * time.Second
	}

	return o
}

func configFor(o Options) resourcemanagerconfigv1alpha1.ResourceManagerConfiguration {
	period := &metav1.Duration{Duration: o.SyncPeriod}
	config := resourcemanagerconfigv1alpha1.ResourceManagerConfiguration{}
	config.Controllers.ResourceClass = new(v1beta1constants.SeedResourceManagerClass)
	config.Controllers.ClusterID = new("")
	config.Controllers.ManagedResource = resourcemanagerconfigv1alpha1.ManagedResourceControllerConfig{
		ConcurrentSyncs:     &o.ConcurrentSyncs,
		SyncPeriod:          period,
		ManagedByLabelValue: new("gardener"),
	}
	config.Controllers.Health = resourcemanagerconfigv1alpha1.HealthControllerConfig{ConcurrentSyncs: &o.ConcurrentSyncs, SyncPeriod: period}
	config.Controllers.GarbageCollector = resourcemanagerconfigv1alpha1.GarbageCollectorControllerConfig{Enabled: true, SyncPeriod: period}

	return config
}

func addControllers(ctx context.Context, mgr manager.Manager, seed cluster.Cluster, o Options) error {
	o = o.withDefaults()
	config := configFor(o)
	on := ManagerOn{Manager: mgr, Cluster: seed}
	none := refusing{Client: seed.GetClient()}

	if err := addApplication(on, mgr.GetClient(), config, o); err != nil {
		return fmt.Errorf("adding the controller that applies: %w", err)
	}
	observed := clusterWith{Cluster: seed, client: health{managedResources{none}}}
	if err := healthcontrollers.AddToManager(ctx, on, observed, observed, config); err != nil {
		return fmt.Errorf("adding the controllers that check health: %w", err)
	}
	if err := (&garbagecollector.Reconciler{
		TargetClient: collector{none},
		Config:       config.Controllers.GarbageCollector,
		Clock:        clock.RealClock{},
	}).AddToManager(on, seed); err != nil {
		return fmt.Errorf("adding the garbage collector: %w", err)
	}

	return nil
}

// addApplication adds the controller that applies ManagedResources. It watches ManagedResources as Gardener's controller does, and in
// place of their payloads it watches the renderings.
func addApplication(mgr ManagerOn, etcds client.Reader, config resourcemanagerconfigv1alpha1.ResourceManagerConfiguration, o Options) error {
	class := resourcemanagerpredicate.NewClassFilter(*config.Controllers.ResourceClass)
	reconciler := &reconciler{
		manager: mgr, etcds: etcds, renderings: o.Renderings,
		application: managedresource.Reconciler{
			TargetScheme:                  mgr.GetScheme(),
			TargetRESTMapper:              renderedKinds{RESTMapper: mgr.GetRESTMapper()},
			Config:                        config.Controllers.ManagedResource,
			Clock:                         clock.RealClock{},
			ClassFilter:                   class,
			GarbageCollectorActivated:     true,
			RequeueAfterOnDeletionPending: &o.RequeueOnDeletion,
		},
	}

	return builder.ControllerManagedBy(mgr).
		Named(managedresource.ControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.ConcurrentSyncs, ReconciliationTimeout: o.SyncPeriod}).
		For(&resourcesv1alpha1.ManagedResource{}, builder.WithPredicates(
			class,
			predicate.Or(
				predicate.GenerationChangedPredicate{},
				resourcemanagerpredicate.HasOperationAnnotation(),
				resourcemanagerpredicate.ConditionStatusChanged(resourcesv1alpha1.ResourcesHealthy, resourcemanagerpredicate.ConditionChangedToUnhealthy),
				resourcemanagerpredicate.NoLongerIgnored(),
				resourcemanagerpredicate.GotMarkedAsIgnored(),
				class.CleanupCompleted(),
			),
			predicate.Or(resourcemanagerpredicate.GotMarkedAsIgnored(), resourcemanagerpredicate.NotIgnored(), predicateutils.IsDeleting()),
		)).
		WatchesRawSource(o.Renderings.source()).
		Complete(reconciler)
}
