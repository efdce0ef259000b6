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
	resourcemanagerclient "github.com/gardener/gardener/pkg/resourcemanager/client"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/garbagecollector"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/garbagecollector/references"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/health"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/managedresource"
	resourcemanagerpredicate "github.com/gardener/gardener/pkg/resourcemanager/predicate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Options are the options of the embedded controllers.
type Options struct {
	// SyncPeriod is the time after which every ManagedResource is applied again without an event. It also limits the duration
	// of one application. Zero means one hour.
	SyncPeriod time.Duration
	// ConcurrentSyncs is the number of ManagedResources that are reconciled concurrently. Zero means 5.
	ConcurrentSyncs int
	// RequeueOnDeletion is the time between two checks of objects that are being deleted. Zero means 5 seconds.
	RequeueOnDeletion time.Duration
}

// AddToManager adds the controllers of gardener-resource-manager for application, health and garbage collection of the class
// seed. They run only while the manager is the leader. It returns an error if the cluster has its own
// gardener-resource-manager: both would write the same finalizers and objects.
func AddToManager(ctx context.Context, mgr manager.Manager, o Options) error {
	if err := CheckNoneInstalled(ctx, mgr.GetAPIReader()); err != nil {
		return err
	}

	// These controllers read objects of all kinds and labels, which the caches of the operator do not contain. They therefore
	// need a separate cluster object.
	seed, err := newCluster(mgr)
	if err != nil {
		return fmt.Errorf("setting up caches: %w", err)
	}
	if err := mgr.Add(seed); err != nil {
		return fmt.Errorf("adding caches to the manager: %w", err)
	}
	return addControllers(ctx, managerOn{Manager: mgr, cluster: seed}, seed, configFor(o))
}

// managerOn is a manager whose controllers watch and read through the caches of another cluster object. A controller must not
// get events from one cache and read from another: if that one lags behind, an object appears deleted.
type managerOn struct {
	manager.Manager
	cluster cluster.Cluster
}

func (m managerOn) GetCache() cache.Cache                { return m.cluster.GetCache() }
func (m managerOn) GetClient() client.Client             { return m.cluster.GetClient() }
func (m managerOn) GetAPIReader() client.Reader          { return m.cluster.GetAPIReader() }
func (m managerOn) GetScheme() *runtime.Scheme           { return m.cluster.GetScheme() }
func (m managerOn) GetRESTMapper() meta.RESTMapper       { return m.cluster.GetRESTMapper() }
func (m managerOn) GetFieldIndexer() client.FieldIndexer { return m.cluster.GetFieldIndexer() }

func newCluster(mgr manager.Manager) (cluster.Cluster, error) {
	payloads := labels.SelectorFromSet(labels.Set{references.LabelKeyGarbageCollectable: references.LabelValueGarbageCollectable})
	return cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme = resourcemanagerclient.CombinedScheme
		o.Logger = mgr.GetLogger()
		o.Cache.DefaultTransform = cache.TransformStripManagedFields()
		// The watch selects payloads by this label, to apply changes. Reads go to the API server.
		o.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: payloads}}
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Event{}}}
	})
}

func configFor(o Options) resourcemanagerconfigv1alpha1.ResourceManagerConfiguration {
	if o.SyncPeriod == 0 {
		o.SyncPeriod = time.Hour
	}
	if o.ConcurrentSyncs == 0 {
		o.ConcurrentSyncs = 5
	}
	if o.RequeueOnDeletion == 0 {
		o.RequeueOnDeletion = 5 * time.Second
	}
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

func addControllers(ctx context.Context, mgr manager.Manager, seed cluster.Cluster, config resourcemanagerconfigv1alpha1.ResourceManagerConfiguration) error {
	if err := (&managedresource.Reconciler{
		Config:                    config.Controllers.ManagedResource,
		ClassFilter:               resourcemanagerpredicate.NewClassFilter(*config.Controllers.ResourceClass),
		GarbageCollectorActivated: true,
	}).AddToManager(mgr, seed, seed); err != nil {
		return fmt.Errorf("adding the controller that applies: %w", err)
	}
	if err := health.AddToManager(ctx, mgr, seed, seed, config); err != nil {
		return fmt.Errorf("adding the controllers that check health: %w", err)
	}
	if err := (&garbagecollector.Reconciler{
		Config: config.Controllers.GarbageCollector,
		Clock:  clock.RealClock{},
	}).AddToManager(mgr, seed); err != nil {
		return fmt.Errorf("adding the garbage collector: %w", err)
	}
	return nil
}
