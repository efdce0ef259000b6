// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package clusters_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/resourcemanager"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestClusters(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Clusters Suite")
}

var (
	env          *environment.Environment
	statefulSets = &environment.StatefulSets{}
	// renderings are shared by the operator and the resource manager, as in one process.
	renderings resourcemanager.Renderings
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	format.MaxLength = 0 // a difference of two states is one text
	SetDefaultEventuallyTimeout(3 * time.Minute)
	SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	env = environment.Start()
	By("starting the fake StatefulSet controller and the resource manager")
	cluster := newManager(manager.Options{Scheme: app.NewScheme()})
	Expect(statefulSets.AddToManager(cluster, env.Client)).To(Succeed())
	Expect(resourcemanager.AddToManager(context.Background(), cluster, resourcemanager.Options{Renderings: &renderings, RequeueOnDeletion: 50 * time.Millisecond})).To(Succeed())
	DeferCleanup(start(cluster))
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
	return sync.OnceFunc(func() {
		cancel()
		<-done
	})
}
