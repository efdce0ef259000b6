// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	goruntime "runtime"
	"strings"

	"github.com/gardener/gardener/extensions/pkg/util"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/metrics"
)

// newManager returns the manager that all controllers share, with its election, its servers and its caches.
func newManager(ctx context.Context, o *Options) (manager.Manager, error) {
	c := o.Config
	restConfig := o.rest.Completed().Config
	util.ApplyClientConnectionConfigurationToRESTConfig(&componentbaseconfigv1alpha1.ClientConnectionConfiguration{
		QPS:                c.ClientConnection.QPS,
		Burst:              int32(c.ClientConnection.Burst), // #nosec G115 -- validated to be positive
		ContentType:        c.ClientConnection.ContentType,
		AcceptContentTypes: c.ClientConnection.AcceptContentTypes,
	}, restConfig)

	// What is tried by dry run comes with the same warnings each time.
	restConfig.WarningHandlerWithContext = logf.NewKubeAPIWarningLogger(logf.KubeAPIWarningLoggerOptions{Deduplicate: true})

	uncached, err := client.New(restConfig, client.Options{Scheme: NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("setting up the client: %w", err)
	}
	if c.WatchNamespaces, err = existingNamespaces(ctx, uncached, c.WatchNamespaces); err != nil {
		return nil, err
	}

	options := o.manager.Completed().Options()
	options.Scheme = NewScheme()
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration = &c.LeaderElection.LeaseDuration.Duration
	options.RenewDeadline = &c.LeaderElection.RenewDeadline.Duration
	options.RetryPeriod = &c.LeaderElection.RetryPeriod.Duration
	options.Cache = CacheOptions(c.WatchNamespaces...)
	options.Client = ClientOptions()
	options.Metrics.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		return func(_ logr.Logger, handler http.Handler) (http.Handler, error) {
			return metrics.Cached(handler, clock.RealClock{}), nil
		}, nil
	}
	if c.Debugging.EnableProfiling {
		handlers, err := profilingHandlers(restConfig, o.manager.Completed().Logger)
		if err != nil {
			return nil, err
		}
		options.Metrics.ExtraHandlers = handlers
		if c.Debugging.EnableContentionProfiling {
			goruntime.SetBlockProfileRate(1)
		}
	}
	guard, err := guardElection(ctx, o, restConfig, &options)
	if err != nil {
		return nil, err
	}
	mgr, err := manager.New(restConfig, options)
	if err != nil {
		return nil, err
	}
	return mgr, addOwnership(mgr, guard, c.Predecessor)
}

// CacheOptions keep the caches small on seeds with hundreds of etcds and thousands of other pods. Of the kinds that an Etcd
// consists of, the caches hold only the objects with the label that every Etcd gives to its objects. They hold no managed
// fields. If there are namespaces, the caches hold only their objects, and cluster-scoped ones.
func CacheOptions(namespaces ...string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/managed-by": "etcd-druid"})}
	var watched map[string]cache.Config
	for _, namespace := range namespaces {
		if watched == nil {
			watched = map[string]cache.Config{}
		}
		watched[namespace] = cache.Config{}
	}
	return cache.Options{
		DefaultNamespaces: watched,
		// Of Clusters too: a transformation by kind would keep the operator from starting where nothing of Gardener is installed.
		DefaultTransform: trim,
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.StatefulSet{}:           ours,
			&batchv1.Job{}:                  ours,
			&coordinationv1.Lease{}:         ours,
			&corev1.Pod{}:                   ours,
			&corev1.PersistentVolumeClaim{}: ours,
			&corev1.Service{}:               ours,
			&corev1.ConfigMap{}:             ours,
			&corev1.ServiceAccount{}:        ours,
			&policyv1.PodDisruptionBudget{}: ours,
			&networkingv1.NetworkPolicy{}:   ours,
			&rbacv1.Role{}:                  ours,
			&rbacv1.RoleBinding{}:           ours,
			&resourcesv1alpha1.ManagedResource{}: {
				Label: labels.SelectorFromSet(labels.Set{"origin": Name}),
			},
		},
	}
}

// trim removes the managed fields of an object, and the manifest that kubectl applied last, which repeats its content. A patch of an object of the caches
// keeps both. The key of the annotation stays: a patch that removed the last annotation of the cached object would remove all annotations. ManagedResources
// keep the manifest, because the operator updates them.
//
// trim also removes the CloudProfile and the Seed of a Cluster: the operator reads only the Shoot, and a CloudProfile can have hundreds of kilobytes.
// The caches contain the metadata of all Secrets. Users write any annotation on them. Only the annotations of Gardener stay.
func trim(object any) (any, error) {
	_, isUpdated := object.(*resourcesv1alpha1.ManagedResource)
	if metadata, err := meta.Accessor(object); err == nil && !isUpdated && metadata.GetAnnotations()[corev1.LastAppliedConfigAnnotation] != "" {
		metadata.GetAnnotations()[corev1.LastAppliedConfigAnnotation] = ""
	}
	if cluster, ok := object.(*extensionsv1alpha1.Cluster); ok {
		cluster.Spec.CloudProfile, cluster.Spec.Seed = runtime.RawExtension{}, nil
	}
	if secret, ok := object.(*metav1.PartialObjectMetadata); ok && secret.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret") {
		maps.DeleteFunc(secret.Annotations, func(key, _ string) bool { return !isOfGardener(key) })
	}
	return cache.TransformStripManagedFields()(object)
}

// ClientOptions read the content of Secrets and ConfigMaps from the API server: a cache would hold every credential of
// the seed in memory. Of the registrations of webhooks there is a single one of interest.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{
		DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}},
	}}
}

// isOfGardener is true for the key of an annotation in a domain of Gardener.
func isOfGardener(key string) bool {
	domain, _, _ := strings.Cut(key, "/")

	return domain == "gardener.cloud" || strings.HasSuffix(domain, ".gardener.cloud")
}
