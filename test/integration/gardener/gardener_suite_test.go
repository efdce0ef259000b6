// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
	"github.com/gardener/gardener-extension-etcd-druid/test/provider"
)

func TestGardener(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Gardener Suite")
}

var (
	env          *environment.Environment
	statefulSets = &environment.StatefulSets{}
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	env = environment.Start()
	Expect(env.Client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}})).To(Succeed())

	_, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{ErrorIfPathMissing: true, Paths: []string{
		filepath.Join(environment.ModuleDirectory("github.com/gardener/gardener"), "example", "operator", "10-crd-operator.gardener.cloud_gardens.yaml"),
	}})
	Expect(err).NotTo(HaveOccurred())

	By("starting the fake StatefulSet controller, the resource manager and the backup provider")
	cluster := newManager(manager.Options{Scheme: app.NewScheme()})
	Expect(statefulSets.AddToManager(cluster, env.Client)).To(Succeed())
	env.AddResourceManager(cluster)
	Expect(provider.AddToManager(cluster, provider.Options{HostPath: "/var/buckets"})).To(Succeed())
	DeferCleanup(start(cluster))

	By("starting the controller")
	mgr := newManager(manager.Options{Scheme: app.NewScheme(), Cache: app.CacheOptions(), Client: app.ClientOptions()})
	observer := &observer.Observer{Reader: mgr.GetCache(), APIReader: mgr.GetAPIReader(), Etcd: &environment.Members{Client: env.Client}}
	Expect(observer.Detect(context.Background(), mgr.GetRESTMapper(), mgr.GetFieldIndexer())).To(Succeed())
	Expect(observer.Gardener).To(BeTrue())
	Expect(observer.Garden).To(BeTrue())
	Expect(etcd.AddToManager(context.Background(), mgr, etcd.AddOptions{
		Config: target.Config{LocalStoreRoots: backupstore.LocalRoots{"/var/buckets"}, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {
			EtcdWrapper: "registry.example.com/etcd-wrapper:v1", BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1",
		}}}},
		Observer: observer,
		Gardener: observer.Gardener,
		Garden:   observer.Garden,
	})).To(Succeed())
	DeferCleanup(start(mgr))
})

func newManager(options manager.Options) manager.Manager {
	GinkgoHelper()
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = new(true)
	mgr, err := manager.New(env.Config, options)
	Expect(err).NotTo(HaveOccurred())
	return mgr
}

// start starts a manager. The returned function stops it and waits until it has stopped.
func start(mgr manager.Manager) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(mgr.Start(ctx)).To(Succeed())
	}()
	return func() {
		cancel()
		<-done
	}
}
