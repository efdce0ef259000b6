// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardenlet_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"path/filepath"
	"testing"
	"time"

	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/etcd-druid/api/validation"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gardener/gardener/pkg/client/kubernetes"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/resourcemanager"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
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
	// seed is a client as gardenlet has it, with etcd-druid's types for our kinds.
	seed client.Client
	// operator is what the operator wrote to Etcds.
	operator = &writes{}
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	// Small keys are quicker, and as good here.
	secretsutils.GenerateKey = func(io.Reader, int) (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) }
	gardeneretcd.DefaultInterval, gardeneretcd.DefaultTimeout = 100*time.Millisecond, time.Minute

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

	validateAsOnSeeds()

	By("playing the rest of the cluster")
	cluster := newManager(env.Config, manager.Options{Scheme: app.NewScheme()})
	Expect(statefulSets.AddToManager(cluster, env.Client)).To(Succeed())
	Expect(resourcemanager.AddToManager(context.Background(), cluster, resourcemanager.Options{RequeueOnDeletion: 50 * time.Millisecond})).To(Succeed())
	Expect(provider.AddToManager(cluster, provider.Options{HostPath: "/var/buckets"})).To(Succeed())
	DeferCleanup(start(cluster))

	By("starting the controller, as on seeds: a generation waits for the operation annotation")
	mgr := newManager(operator.recorded(env.Config), manager.Options{Scheme: app.NewScheme(), Cache: app.CacheOptions(), Client: app.ClientOptions()})
	observer := &observer.Observer{Reader: mgr.GetCache(), APIReader: mgr.GetAPIReader()}
	Expect(observer.Detect(context.Background(), mgr.GetRESTMapper(), mgr.GetFieldIndexer())).To(Succeed())
	Expect(etcd.AddToManager(context.Background(), mgr, etcd.AddOptions{
		Config: etcd.Config{Defaults: componentetcd.Defaults{Images: componentetcd.Images{
			EtcdWrapper: "registry.example.com/etcd-wrapper:v1", BackupRestore: "registry.example.com/etcdbrctl:v1", Init: "registry.example.com/init:v1",
		}}},
		Observer: observer,
		Gardener: observer.Gardener,
	})).To(Succeed())
	DeferCleanup(start(mgr))
})

// validateAsOnSeeds puts the webhook in front of Etcds that gardener-resource-manager runs on seeds.
func validateAsOnSeeds() {
	GinkgoHelper()
	path := "/validate-druid-gardener-cloud-v1alpha1-etcd"
	install := envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{{
		ObjectMeta: metav1.ObjectMeta{Name: "extension-validation"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validation.extensions.etcd.druid.gardener.cloud",
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"druid.gardener.cloud"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"etcds"}},
			}},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "garden", Name: "gardener-resource-manager", Path: &path}},
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:           new(admissionregistrationv1.Fail),
		}},
	}}}
	Expect(install.PrepWithoutInstalling()).To(Succeed())
	DeferCleanup(func() { Expect(install.Cleanup()).To(Succeed()) })

	mgr := newManager(env.Config, manager.Options{Scheme: kubernetes.SeedScheme, WebhookServer: webhook.NewServer(webhook.Options{
		Host: install.LocalServingHost, Port: install.LocalServingPort, CertDir: install.LocalServingCertDir,
	})})
	Expect(builder.WebhookManagedBy(mgr, &upstreamv1alpha1.Etcd{}).WithValidator(validator{}).Complete()).To(Succeed())
	DeferCleanup(start(mgr))
	Eventually(func() error { return mgr.GetWebhookServer().StartedChecker()(nil) }).Should(Succeed())
	Expect(install.Install(env.Config)).To(Succeed())
}

// validator calls what the handler of gardener-resource-manager calls.
type validator struct{}

// ValidateCreate implements admission.Validator.
func (validator) ValidateCreate(_ context.Context, etcd *upstreamv1alpha1.Etcd) (admission.Warnings, error) {
	return nil, validation.ValidateEtcd(etcd).ToAggregate()
}

// ValidateUpdate implements admission.Validator.
func (validator) ValidateUpdate(_ context.Context, before, after *upstreamv1alpha1.Etcd) (admission.Warnings, error) {
	return nil, validation.ValidateEtcdUpdate(after, before).ToAggregate()
}

// ValidateDelete implements admission.Validator.
func (validator) ValidateDelete(context.Context, *upstreamv1alpha1.Etcd) (admission.Warnings, error) {
	return nil, nil
}

func newManager(config *rest.Config, options manager.Options) manager.Manager {
	GinkgoHelper()
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = new(true)
	mgr, err := manager.New(config, options)
	Expect(err).NotTo(HaveOccurred())
	return mgr
}

// start starts a manager and returns what stops it and waits for its end.
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
