// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package copybackups_test tests the EtcdCopyBackupsTask controller against a real kube-apiserver. The test simulates the Job
// controller. The client is the component of Gardener.
package copybackups_test

import (
	"context"
	"testing"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestCopyBackups(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration CopyBackups Suite")
}

var (
	env *environment.Environment
	// seed is a client like that of gardenlet, with the Go types of etcd-druid.
	seed client.Client
	// cached reads from the cache of the controller.
	cached client.Reader
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)

	env = environment.Start()

	var err error
	seed, err = client.New(env.Config, client.Options{Scheme: kubernetes.SeedScheme})
	Expect(err).NotTo(HaveOccurred())

	By("starting the fake garbage collector")
	cluster := newManager(manager.Options{Scheme: app.NewScheme()})
	Expect(builder.ControllerManagedBy(cluster).Named("fake-garbage-collector").For(&batchv1.Job{}).Complete(garbageCollector{})).To(Succeed())
	DeferCleanup(start(cluster))

	By("starting the controller")
	mgr := newManager(manager.Options{Scheme: app.NewScheme(), Cache: app.CacheOptions(), Client: app.ClientOptions()})
	cached = mgr.GetCache()
	observer := &observer.Observer{
		Reader: mgr.GetCache(), APIReader: mgr.GetAPIReader(), Copies: true, LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath},
	}
	Expect(observer.Detect(context.Background(), mgr.GetRESTMapper(), mgr.GetFieldIndexer())).To(Succeed())
	Expect(copybackups.AddToManager(context.Background(), mgr, copybackups.AddOptions{
		Controller: controller.Options{MaxConcurrentReconciles: 3},
		Images:     copybackups.Images{BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1"},
		Observer:   observer,
		Stores:     calls.NewStoreReservations(clock.RealClock{}),

		LocalStoreRoots: backupstore.LocalRoots{backupstore.DefaultHostPath},
	})).To(Succeed())
	DeferCleanup(start(mgr))
})

// garbageCollector deletes the pods of Jobs that are being deleted, and then removes the finalizers of the Jobs.
type garbageCollector struct{}

// Reconcile reconciles one Job.
func (garbageCollector) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	job := &batchv1.Job{}
	if err := env.Client.Get(ctx, req.NamespacedName, job); err != nil || job.DeletionTimestamp == nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if err := env.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}, client.GracePeriodSeconds(0)); err != nil {
		return reconcile.Result{}, err
	}
	job.Finalizers = nil
	return reconcile.Result{}, client.IgnoreNotFound(env.Client.Update(ctx, job))
}

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
