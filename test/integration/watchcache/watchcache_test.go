// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package watchcache_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// startTimeout bounds the start and the stop of a process on a busy machine.
	startTimeout = 2 * time.Minute
	// recoverTimeout bounds how long the kube-apiserver needs after a restart of etcd.
	recoverTimeout = time.Minute
	// updates is how often the lost ConfigMap is updated. The kube-apiserver itself writes less while the informer is observed, so that the
	// revision stays below that of the last update.
	updates = 200
	// watchTime is for how long an informer is observed that must not change.
	watchTime = 5 * time.Second
)

var helper string

var _ = BeforeSuite(func(ctx SpecContext) {
	Expect(os.Getenv("KUBEBUILDER_ASSETS")).NotTo(BeEmpty(), "KUBEBUILDER_ASSETS must be a folder with etcd and kube-apiserver: run the suite through make")
	helper = filepath.Join(GinkgoT().TempDir(), "etcd-helper")
	run(ctx, "go", "build", "-C", filepath.Join("..", "..", "..", "cmd", "etcd-helper"), "-o", helper, ".")
}, NodeTimeout(10*time.Minute))

var _ = Describe("An informer after a restore of etcd to an earlier revision", func() {
	It("shows what etcd contains if the restore has increased the revision", func(ctx SpecContext) {
		cluster := startCluster(ctx)
		cluster.restore(ctx, func(database string) { run(ctx, helper, "bump", "--database="+database, "--by=1000000") })

		cluster.create(ctx, "after")
		Eventually(cluster.informed).WithContext(ctx).WithTimeout(recoverTimeout).Should(ConsistOf("before", "after"))
		Expect(cluster.stored(ctx)).To(ConsistOf("before", "after"))
	}, SpecTimeout(10*time.Minute))

	// If this test fails because the informer shows what etcd contains, the kube-apiserver no longer needs a higher revision.
	It("shows an object that etcd has lost, and not the new ones, if the revision was not increased", func(ctx SpecContext) {
		cluster := startCluster(ctx)
		cluster.restore(ctx, func(string) {})

		cluster.create(ctx, "after")
		Consistently(cluster.informed).WithContext(ctx).WithTimeout(watchTime).Should(ConsistOf("before", "lost"))
		Expect(cluster.stored(ctx)).To(ConsistOf("before", "after"))
	}, SpecTimeout(10*time.Minute))
})

// cluster is a kube-apiserver with an etcd, and an informer for the ConfigMaps of a namespace.
type cluster struct {
	etcd      *envtest.Etcd
	clientset kubernetes.Interface
	informer  cache.SharedIndexInformer
	// saved is a copy of the data directory, which contains the ConfigMap "before", and not the ConfigMap "lost".
	saved string
}

// startCluster starts a cluster and creates the ConfigMaps "before" and "lost". It saves the data directory in between.
func startCluster(ctx context.Context) *cluster {
	GinkgoHelper()

	env := &envtest.Environment{ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout}
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: GinkgoT().TempDir()}
	config, err := env.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })

	config.QPS, config.Burst = 1000, 1000
	clientset, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())

	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(metav1.NamespaceDefault))
	c := &cluster{etcd: env.ControlPlane.Etcd, clientset: clientset, informer: factory.Core().V1().ConfigMaps().Informer(), saved: filepath.Join(GinkgoT().TempDir(), "saved")}
	// Another goroutine must not use the context of the spec, which ends before the API server.
	informerCtx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	factory.StartWithContext(informerCtx)
	Eventually(c.informer.HasSynced).WithContext(ctx).WithTimeout(recoverTimeout).Should(BeTrue())

	c.create(ctx, "before")
	c.restartEtcd(func() { run(ctx, "cp", "-a", c.etcd.DataDir, c.saved) })
	c.create(ctx, "lost")
	c.update(ctx, "lost")
	Eventually(c.informed).WithContext(ctx).WithTimeout(recoverTimeout).Should(ConsistOf("before", "lost"))

	return c
}

// restore replaces the data directory with the saved one. change changes its database before etcd starts.
func (c *cluster) restore(ctx context.Context, change func(database string)) {
	GinkgoHelper()
	c.restartEtcd(func() {
		run(ctx, "rm", "-r", c.etcd.DataDir)
		run(ctx, "cp", "-a", c.saved, c.etcd.DataDir)
		change(filepath.Join(c.etcd.DataDir, "member", "snap", "db"))
	})
}

// restartEtcd executes a function while etcd does not run.
func (c *cluster) restartEtcd(between func()) {
	GinkgoHelper()
	Expect(c.etcd.Stop()).To(Succeed())
	between()
	Expect(c.etcd.Start()).To(Succeed())
}

// create creates a ConfigMap as soon as the kube-apiserver is connected to etcd.
func (c *cluster) create(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		_, err := c.clientset.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			g.Expect(err).NotTo(HaveOccurred())
		}
	}).WithContext(ctx).WithTimeout(recoverTimeout).Should(Succeed())
}

// update changes a ConfigMap repeatedly, which increases the revision of etcd.
func (c *cluster) update(ctx context.Context, name string) {
	GinkgoHelper()
	for number := range updates {
		patch := fmt.Appendf(nil, `{"data":{"number":"%d"}}`, number)
		_, err := c.clientset.CoreV1().ConfigMaps(metav1.NamespaceDefault).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

// informed returns the names of the ConfigMaps that the informer shows, without those of Kubernetes.
func (c *cluster) informed() []string {
	var names []string
	for _, object := range c.informer.GetStore().List() {
		if name := object.(*corev1.ConfigMap).Name; name != "kube-root-ca.crt" {
			names = append(names, name)
		}
	}

	return names
}

// stored returns the names of those ConfigMaps that etcd contains. A read without a resource version is a quorum read.
func (c *cluster) stored(ctx context.Context) []string {
	GinkgoHelper()
	var names []string
	for _, name := range []string{"before", "lost", "after"} {
		_, err := c.clientset.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
			names = append(names, name)
		}
	}

	return names
}

func run(ctx context.Context, name string, arguments ...string) {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}
