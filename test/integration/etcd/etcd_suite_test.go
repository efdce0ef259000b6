// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/resourcemanager"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/rollouts"
	secretcontroller "github.com/gardener/gardener-extension-etcd-druid/pkg/controller/secret"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	fakesidecar "github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestEtcd(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Etcd Suite")
}

var (
	env          *environment.Environment
	statefulSets = &environment.StatefulSets{}
	sidecars     = fakesidecar.NewStore(time.Now)
	members      singleMembers
	stopOperator func()
	// cached reads from the cache of the operator.
	cached client.Reader
	// renderings are shared by the operator and the resource manager, as in one process.
	renderings resourcemanager.Renderings
	// sent records the requests of the operator.
	sent = &requests{}
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)

	env = environment.Start()

	By("starting the fake StatefulSet controller and the resource manager")
	cluster := newManager(manager.Options{Scheme: app.NewScheme()})
	Expect(statefulSets.AddToManager(cluster, env.Client)).To(Succeed())
	Expect(resourcemanager.AddToManager(context.Background(), cluster, resourcemanager.Options{Renderings: &renderings, RequeueOnDeletion: 50 * time.Millisecond})).To(Succeed())
	DeferCleanup(start(cluster))

	stopOperator = startOperator("v1", false)
	DeferCleanup(func() { stopOperator() })
})

// startOperator starts the controller with images of a version, and with the limits of their rollout, if there are any. The returned function stops it.
func startOperator(version string, autoReconcile bool, limits ...rollout.Limits) func() {
	GinkgoHelper()
	mgr, err := newManagerWith(sent.record(env.Config), manager.Options{Scheme: app.NewScheme(), Cache: app.CacheOptions(), Client: app.ClientOptions()})
	Expect(err).NotTo(HaveOccurred())
	cached = mgr.GetCache()
	watching := &observer.Observer{
		Reader: mgr.GetClient(), APIReader: mgr.GetAPIReader(), DryRun: mgr.GetClient(), Etcd: &members, Sidecars: sidecars, Copies: true,
		LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath},
	}
	Expect(watching.Detect(context.Background(), mgr.GetRESTMapper(), mgr.GetFieldIndexer())).To(Succeed())
	options := etcd.AddOptions{
		Renderings: &renderings,
		Config: target.Config{
			EtcdHelper:      target.EtcdHelper{Image: "registry.example.com/operator:v1"},
			AutoReconcile:   autoReconcile,
			LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath},
			Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {
				EtcdWrapper:   "registry.example.com/etcd-wrapper:" + version,
				BackupRestore: "registry.example.com/etcdbrctl:" + version,
				Init:          "registry.example.com/init:" + version,
			}}},
		},
		Observer:  watching,
		CopyTasks: true,
	}
	for _, limit := range limits {
		options.Config.Rollout = &limit
		options.Rollouts = rollouts.NewCoordinator(&observer.Fleet{Observer: watching}, limit, clock.RealClock{})
	}
	Expect(etcd.AddToManager(context.Background(), mgr, options)).To(Succeed())
	Expect(secretcontroller.AddToManager(context.Background(), mgr, secretcontroller.AddOptions{CopyTasks: true})).To(Succeed())
	return start(mgr)
}

func newManager(options manager.Options) manager.Manager {
	GinkgoHelper()
	mgr, err := newManagerWith(env.Config, options)
	Expect(err).NotTo(HaveOccurred())
	return mgr
}

func newManagerWith(config *rest.Config, options manager.Options) (manager.Manager, error) {
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = new(true)
	return manager.New(config, options)
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
