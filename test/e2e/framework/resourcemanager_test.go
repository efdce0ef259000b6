// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component/gardener/resourcemanager"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/test/golden"
)

var _ = It("The local seed has the configuration and the webhooks of gardener-resource-manager that gardenlet writes on seeds", func(ctx SpecContext) {
	c := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
	Expect(c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "ca-seed"}})).To(Succeed())

	// The values are those of gardenlet (newGardenerResourceManager in its controller of seeds) and the defaults of
	// NewRuntimeGardenerResourceManager. The tolerations are the defaults of gardenlet's chart.
	Expect(resourcemanager.New(c, "garden", fakesecretsmanager.New(c, "garden"), resourcemanager.Values{
		ConcurrentSyncs:                      new(20),
		HealthSyncPeriod:                     &metav1.Duration{Duration: time.Minute},
		MaxConcurrentNetworkPolicyWorkers:    new(20),
		Replicas:                             new(int32(2)),
		ResourceClass:                        new("seed"),
		ResponsibilityMode:                   resourcemanager.ForRuntime,
		HighAvailabilityConfigWebhookEnabled: true,
		DefaultNotReadyToleration:            new(int64(60)),
		DefaultUnreachableToleration:         new(int64(60)),
		SecretNameServerCA:                   "ca-seed",
		PodKubeAPIServerLoadBalancingWebhook: resourcemanager.PodKubeAPIServerLoadBalancingWebhook{
			Enabled: true,
			Configs: []resourcemanager.PodKubeAPIServerLoadBalancingWebhookConfig{{NamespaceSelector: map[string]string{"gardener.cloud/role": "shoot"}}},
		},
		VPAInPlaceUpdatesEnabled: true,
	}).Deploy(ctx)).To(Succeed())

	configs := &corev1.ConfigMapList{}
	Expect(c.List(ctx, configs, client.InNamespace("garden"))).To(Succeed())
	Expect(configs.Items).To(HaveLen(1))
	expectGolden("resource-manager-config", configs.Items[0].Data["config.yaml"])

	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	var documents []string
	for _, configuration := range []client.Object{mutating, validating} {
		list := &unstructured.UnstructuredList{}
		gvk, err := c.GroupVersionKindFor(configuration)
		Expect(err).NotTo(HaveOccurred())
		list.SetGroupVersionKind(gvk)
		Expect(c.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		list.Items[0].SetResourceVersion("")
		content, err := yaml.Marshal(list.Items[0].Object)
		Expect(err).NotTo(HaveOccurred())
		documents = append(documents, string(content))
	}
	expectGolden("resource-manager-webhooks", strings.Join(documents, "---\n"))
})

// expectGolden compares the text with a manifest of the local seed, or writes it.
func expectGolden(name, text string) {
	GinkgoHelper()
	path := golden.Path(filepath.Join("..", "..", "..", "hack", "seed", "internal", "addon", "manifests"), name)
	if golden.IsUpdate() {
		Expect(golden.Write(path, "", text)).To(Succeed())
	}
	Expect(golden.Read(path)).To(Equal(text), "the manifest of the seed differs from Gardener's; UPDATE_GOLDEN=1 writes it")
}
