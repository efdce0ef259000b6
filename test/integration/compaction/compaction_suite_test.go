// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction_test

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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/compaction"
	fakeetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestCompaction(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Compaction Suite")
}

var (
	ctx   = context.Background()
	env   *environment.Environment
	clock *testclock.FakeClock
	// members is the etcd cluster of the only spec that needs members.
	members = fakeetcd.NewCluster(7)
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)

	env = environment.Start()
	clock = testclock.NewFakeClock(time.Now().Truncate(time.Second))

	mgr, err := manager.New(env.Config, manager.Options{
		Scheme: app.NewScheme(), Cache: app.CacheOptions(), Client: app.ClientOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(compaction.AddToManager(ctx, mgr, compaction.AddOptions{
		Config:   compaction.Config{EventsThreshold: 100, FullSnapshotThreshold: 300, Deadline: time.Hour, LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath}},
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
