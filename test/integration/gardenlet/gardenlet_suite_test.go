// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardenlet_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/resourcemanager/webhook/extensionvalidation"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
	"github.com/gardener/gardener-extension-etcd-druid/test/provider"
)

func TestGardenlet(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Gardenlet Suite")
}

var (
	env          *environment.Environment
	statefulSets = &environment.StatefulSets{}
	// seed is a client like that of gardenlet, with the Go types of etcd-druid.
	seed client.Client
	// operator records the writes of the operator to Etcds.
	operator = &writes{}
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	gardeneretcd.DefaultInterval, gardeneretcd.DefaultTimeout = 100*time.Millisecond, 3*time.Minute

	env = environment.Start()
	Expect(env.Client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}})).To(Succeed())
	Expect(env.Client.Create(context.Background(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gardener-system-500"}, Value: 500})).To(Succeed())
	crds := filepath.Join(environment.ModuleDirectory("github.com/gardener/gardener"), "example", "seed-crds")
	_, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{ErrorIfPathMissing: true, Paths: []string{
		filepath.Join(crds, "10-crd-autoscaling.k8s.io_verticalpodautoscalers.yaml"),
		filepath.Join(crds, "10-crd-monitoring.coreos.com_servicemonitors.yaml"),
		filepath.Join(crds, "10-crd-monitoring.coreos.com_prometheusrules.yaml"),
		filepath.Join(crds, "10-crd-monitoring.coreos.com_scrapeconfigs.yaml"),
	}})
	Expect(err).NotTo(HaveOccurred())
	seed, err = client.New(env.Config, client.Options{Scheme: kubernetes.SeedScheme})
	Expect(err).NotTo(HaveOccurred())

	installSeedWebhooks()

	By("starting the fake StatefulSet controller, the resource manager and the backup provider")
	cluster := newManager(env.Config, manager.Options{Scheme: app.NewScheme()})
	Expect(statefulSets.AddToManager(cluster, env.Client)).To(Succeed())
	env.AddResourceManager(cluster)
	Expect(provider.AddToManager(cluster, provider.Options{HostPath: "/var/buckets"})).To(Succeed())
	DeferCleanup(start(cluster))

	By("starting the controller without auto-reconcile, as on a seed")
	mgr := newManager(operator.recorded(env.Config), manager.Options{Scheme: app.NewScheme(), Cache: app.CacheOptions(), Client: app.ClientOptions()})
	observer := &observer.Observer{
		Reader: mgr.GetCache(), APIReader: mgr.GetAPIReader(), Etcd: &environment.Members{Client: env.Client}, Sidecars: fake.NewStore(time.Now),
	}
	Expect(observer.Detect(context.Background(), mgr.GetRESTMapper(), mgr.GetFieldIndexer())).To(Succeed())
	Expect(etcd.AddToManager(context.Background(), mgr, etcd.AddOptions{
		Config: target.Config{LocalStoreRoots: backupstore.LocalRoots{"/var/buckets"}, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {
			EtcdWrapper: "registry.example.com/etcd-wrapper:v1", BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1",
		}}}},
		Observer: observer,
		Gardener: observer.Gardener,
	})).To(Succeed())
	DeferCleanup(start(mgr))
})

// installSeedWebhooks registers the validating webhooks of gardener-resource-manager for the kinds that the tests write.
func installSeedWebhooks() {
	GinkgoHelper()
	install := envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{{
		ObjectMeta: metav1.ObjectMeta{Name: "gardener-resource-manager"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			validating("etcds.druid.gardener.cloud", extensionvalidation.WebhookPathEtcd),
			validating("backupentries.extensions.gardener.cloud", extensionvalidation.WebhookPathBackupEntry),
		},
	}}}
	Expect(install.PrepWithoutInstalling()).To(Succeed())
	DeferCleanup(func() { Expect(install.Cleanup()).To(Succeed()) })

	mgr := newManager(env.Config, manager.Options{Scheme: kubernetes.SeedScheme, WebhookServer: webhook.NewServer(webhook.Options{
		Host: install.LocalServingHost, Port: install.LocalServingPort, CertDir: install.LocalServingCertDir,
	})})
	Expect(extensionvalidation.AddToManager(mgr)).To(Succeed())
	DeferCleanup(start(mgr))
	Eventually(func() error { return mgr.GetWebhookServer().StartedChecker()(nil) }).Should(Succeed())
	Expect(install.Install(env.Config)).To(Succeed())
}

// validating returns a webhook that validates one resource, in the form `<plural>.<group>`.
func validating(resource, path string) admissionregistrationv1.ValidatingWebhook {
	plural, group, _ := strings.Cut(resource, ".")
	return admissionregistrationv1.ValidatingWebhook{
		Name: "validation." + resource,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1alpha1"}, Resources: []string{plural}},
		}},
		ClientConfig:            admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "garden", Name: "gardener-resource-manager", Path: &path}},
		AdmissionReviewVersions: []string{"v1"},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		FailurePolicy:           new(admissionregistrationv1.Fail),
	}
}

func newManager(config *rest.Config, options manager.Options) manager.Manager {
	GinkgoHelper()
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = new(true)
	mgr, err := manager.New(config, options)
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
