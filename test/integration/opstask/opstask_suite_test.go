// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
	fakeetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	fakesidecar "github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar/fake"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestOpsTask(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration OpsTask Suite")
}

var (
	ctx = context.Background()
	env *environment.Environment
	// members and store are the members and the store of every Etcd in the spec.
	members *fakeetcd.Cluster
	store   *fakesidecar.Store
	// locks are the ClusterLocks of the operator.
	locks = calls.NewClusterLocks(clock.RealClock{})
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	env = environment.Start()
})

// startOperator runs the controllers until the function that it returns is called, or the spec ends.
func startOperator() (stop func()) {
	GinkgoHelper()
	mgr, err := manager.New(env.Config, manager.Options{
		Scheme: app.NewScheme(), Cache: app.CacheOptions(), Client: app.ClientOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(opstask.AddToManager(ctx, mgr, opstask.AddOptions{
		Controller:      controller.Options{SkipNameValidation: new(true)},
		RequeueInterval: 200 * time.Millisecond,
		JobDeadline:     time.Hour,
		Locks:           locks,
		Observer:        &observer.Observer{Reader: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Etcd: members, Sidecars: store},
	})).To(Succeed())
	managerCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(mgr.Start(managerCtx)).To(Succeed())
	}()
	stop = func() { cancel(); <-done }
	DeferCleanup(stop)

	return stop
}
