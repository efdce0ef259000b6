// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"time"

	resourcemanagerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/resourcemanager/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcemanagerclient "github.com/gardener/gardener/pkg/resourcemanager/client"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/garbagecollector"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/garbagecollector/references"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/health"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/managedresource"
	resourcemanagerpredicate "github.com/gardener/gardener/pkg/resourcemanager/predicate"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/resourcemanager"
)

// AddResourceManager adds the controllers of gardener-resource-manager, as a seed has them: they apply all ManagedResources of the
// class seed.
func (e *Environment) AddResourceManager(mgr manager.Manager) {
	GinkgoHelper()

	seed, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme = resourcemanagerclient.CombinedScheme
		o.Logger = mgr.GetLogger()
		o.Cache.DefaultTransform = cache.TransformStripManagedFields()
		payloads := labels.Set{references.LabelKeyGarbageCollectable: references.LabelValueGarbageCollectable}
		o.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: labels.SelectorFromSet(payloads)}}
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Event{}}}
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(mgr.Add(seed)).To(Succeed())

	workers, period, requeue := 5, &metav1.Duration{Duration: time.Hour}, 50*time.Millisecond
	config := resourcemanagerconfigv1alpha1.ResourceManagerConfiguration{}
	config.Controllers.ResourceClass = new(v1beta1constants.SeedResourceManagerClass)
	config.Controllers.ClusterID = new("")
	config.Controllers.ManagedResource = resourcemanagerconfigv1alpha1.ManagedResourceControllerConfig{
		ConcurrentSyncs: &workers, SyncPeriod: period, ManagedByLabelValue: new("gardener"),
	}
	config.Controllers.Health = resourcemanagerconfigv1alpha1.HealthControllerConfig{ConcurrentSyncs: &workers, SyncPeriod: period}
	config.Controllers.GarbageCollector = resourcemanagerconfigv1alpha1.GarbageCollectorControllerConfig{Enabled: true, SyncPeriod: period}

	on := resourcemanager.ManagerOn{Manager: mgr, Cluster: seed}
	Expect((&managedresource.Reconciler{
		Config:                        config.Controllers.ManagedResource,
		ClassFilter:                   resourcemanagerpredicate.NewClassFilter(*config.Controllers.ResourceClass),
		GarbageCollectorActivated:     true,
		RequeueAfterOnDeletionPending: &requeue,
	}).AddToManager(on, seed, seed)).To(Succeed())
	Expect(health.AddToManager(context.Background(), on, seed, seed, config)).To(Succeed())
	Expect((&garbagecollector.Reconciler{Config: config.Controllers.GarbageCollector, Clock: clock.RealClock{}}).AddToManager(on, seed)).To(Succeed())
}
