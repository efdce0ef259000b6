// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package care_test tests the care controller against a real kube-apiserver. The test creates the pods, leases and volume claims.
// The members are an in-memory etcd cluster.
package care_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	fakeetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

// period is the interval at which the controller observes an Etcd without an event.
const period = 300 * time.Millisecond

func TestCare(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Care Suite")
}

var (
	ctx     = context.Background()
	env     *environment.Environment
	members *fakeetcd.Cluster
	clock   *testclock.FakeClock
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)

	env = environment.Start()
	members = fakeetcd.NewCluster(7)
	clock = testclock.NewFakeClock(time.Now().Truncate(time.Second))

	mgr, err := manager.New(env.Config, manager.Options{
		Scheme: app.NewScheme(), Cache: app.CacheOptions(), Client: app.ClientOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(care.AddToManager(ctx, mgr, care.AddOptions{
		Config:   care.Config{SyncPeriod: period, UnknownThreshold: time.Minute, NotReadyThreshold: 5 * time.Minute},
		Observer: &observer.Observer{Reader: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Etcd: members},
		Clock:    clock,
	})).To(Succeed())

	managerCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(mgr.Start(managerCtx)).To(Succeed())
	}()
	DeferCleanup(func() { cancel(); <-done })
})
