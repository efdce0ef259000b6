// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package hostile_test verifies that Etcds with hostile members, sidecars or specs do not delay other Etcds. It runs the controllers and
// clients of the operator. Members and sidecars are real servers on the loopback interface.
package hostile_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestHostile(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Hostile Suite")
}

var (
	ctx = context.Background()
	env *environment.Environment
	// measured is the namespace of the healthy Etcds. hostile is the namespace of the hostile Etcds. One operator reconciles both.
	measured, hostile string
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	env = environment.Start()
	removeAddressLimit()

	config := rest.CopyConfig(env.Config)
	config.QPS, config.Burst = 1000, 1000
	var err error
	env.Client, err = client.New(config, client.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	measured, hostile = env.Namespace(ctx, "healthy"), env.Namespace(ctx, "hostile")
	startOperator(measured, hostile)
})

// startOperator starts the controllers for the namespaces, with the default numbers of workers and API requests of the operator.
func startOperator(namespaces ...string) {
	GinkgoHelper()
	config := rest.CopyConfig(env.Config)
	config.QPS, config.Burst = 500, 1000 // the defaults of the operator
	caches := app.CacheOptions()
	caches.DefaultNamespaces = map[string]cache.Config{}
	for _, namespace := range namespaces {
		caches.DefaultNamespaces[namespace] = cache.Config{}
	}
	options := manager.Options{Scheme: app.NewScheme(), Cache: caches, Client: app.ClientOptions(), Metrics: metricsserver.Options{BindAddress: "0"}}
	options.Controller.SkipNameValidation = new(true)
	mgr, err := manager.New(config, options)
	Expect(err).NotTo(HaveOccurred())
	shared := &observer.Observer{
		Reader: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Etcd: etcdclient.NewPool(2*time.Second, clock.RealClock{}), Sidecars: sidecar.HTTP{},
	}
	workers := controller.Options{MaxConcurrentReconciles: 3} // the default of the operator
	Expect(care.AddToManager(ctx, mgr, care.AddOptions{
		Config: care.Config{SyncPeriod: time.Minute, UnknownThreshold: time.Minute, NotReadyThreshold: 5 * time.Minute}, Observer: shared,
	})).To(Succeed())
	Expect(etcd.AddToManager(ctx, mgr, etcd.AddOptions{Controller: workers, Observer: shared, Config: target.Config{AutoReconcile: true, Defaults: defaults()}})).To(Succeed())
	Expect(opstask.AddToManager(ctx, mgr, opstask.AddOptions{
		Controller: workers, RequeueInterval: 200 * time.Millisecond, JobDeadline: time.Hour, Observer: shared,
	})).To(Succeed())

	managerCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(mgr.Start(managerCtx)).To(Succeed())
	}()
	DeferCleanup(func() { cancel(); <-done })
}

// removeAddressLimit removes maxItems of externallyManagedMemberAddresses from the CustomResourceDefinition, which that of etcd-druid lacks.
func removeAddressLimit() {
	GinkgoHelper()
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "etcds.druid.gardener.cloud"}}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	patch := `[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/externallyManagedMemberAddresses/maxItems"}]`
	Expect(env.Client.Patch(ctx, crd, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
}
