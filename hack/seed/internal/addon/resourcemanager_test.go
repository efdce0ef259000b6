// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package addon_test

import (
	"maps"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/addon"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

var _ = Describe("gardener-resource-manager", func() {
	It("has the configuration of gardenlet, except for what depends on the machine", func() {
		content, err := addon.ResourceManagerConfig("/kubeconfig", "/certificates", layout.Seed)
		Expect(err).NotTo(HaveOccurred())

		var changed, gardenlet map[string]any
		Expect(yaml.Unmarshal(content, &changed)).To(Succeed())
		Expect(yaml.Unmarshal(read("config"), &gardenlet)).To(Succeed())
		Expect(slices.Collect(maps.Keys(changed))).To(ContainElements(slices.Collect(maps.Keys(gardenlet))))

		var different []string
		for _, key := range slices.Sorted(maps.Keys(changed)) {
			if ok, _ := Equal(gardenlet[key]).Match(changed[key]); !ok {
				different = append(different, key)
			}
		}
		Expect(different).To(Equal([]string{"leaderElection", "server", "sourceClientConnection", "targetClientConnection"}))
	})

	It("serves all webhooks of gardenlet on the loopback interface, with a certificate that the API server trusts", func() {
		content, err := addon.ResourceManagerWebhooks([]byte("authority"), 9449)
		Expect(err).NotTo(HaveOccurred())

		first, second, found := strings.Cut(string(content), "\n---\n")
		Expect(found).To(BeTrue())
		mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(yaml.UnmarshalStrict([]byte(first), mutating)).To(Succeed())
		Expect(yaml.UnmarshalStrict([]byte(second), validating)).To(Succeed())

		var configs []admissionregistrationv1.WebhookClientConfig
		for _, webhook := range mutating.Webhooks {
			configs = append(configs, webhook.ClientConfig)
		}
		for _, webhook := range validating.Webhooks {
			Expect(webhook.NamespaceSelector.MatchExpressions).To(ConsistOf(HaveField("Key", "gardener.cloud/role")), webhook.Name)
			configs = append(configs, webhook.ClientConfig)
		}
		Expect(configs).To(HaveLen(strings.Count(string(read("webhooks")), "clientConfig:")))
		Expect(configs).To(HaveEach(And(
			HaveField("Service", BeNil()), HaveField("URL", HaveValue(HavePrefix("https://127.0.0.1:9449/"))), HaveField("CABundle", Equal([]byte("authority"))),
		)))
		Expect(configs).To(ContainElement(HaveField("URL", HaveValue(HaveSuffix("/webhooks/mount-projected-service-account-token")))))
	})
})

// read returns a manifest that Gardener has rendered.
func read(name string) []byte {
	GinkgoHelper()

	content, err := os.ReadFile("manifests/resource-manager-" + name + ".golden.yaml")
	Expect(err).NotTo(HaveOccurred())

	return content
}
