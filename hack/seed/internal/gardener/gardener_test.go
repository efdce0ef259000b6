// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

func TestGardener(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Seed Gardener Suite")
}

var _ = Describe("Manager", func() {
	var manager Manager

	BeforeEach(func() {
		root, err := filepath.Abs(filepath.Join("..", "..", "..", ".."))
		Expect(err).NotTo(HaveOccurred())

		cache := GinkgoT().TempDir()
		manager = Manager{
			Garden:   layout.Layout{Cluster: layout.Garden, Root: root, Run: filepath.Join(cache, "garden")},
			Shoots:   layout.Layout{Cluster: layout.Shoots, Root: root, Run: filepath.Join(cache, "shoots")},
			Programs: map[string]string{"helm": "/bin/false"},

			ImageVector: "images:\n- name: etcd-wrapper\n",
		}
		Expect(os.MkdirAll(manager.Garden.PKI(), 0o700)).To(Succeed())
		Expect(os.MkdirAll(manager.Shoots.Run, 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(manager.Garden.PKI(), "ca.crt"), []byte("CA"), 0o600)).To(Succeed())
		Expect(os.WriteFile(manager.Garden.Kubeconfig(), []byte("{\n  \"kind\": \"Config\"\n}\n"), 0o600)).To(Succeed())
	})

	DescribeTable("fills manifests", func(ctx SpecContext, name string, expected ...string) {
		path, err := manager.write(ctx, manager.Shoots, name)
		Expect(err).NotTo(HaveOccurred())
		content, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())

		for _, document := range bytes.Split(content, []byte("\n---\n")) {
			Expect(yaml.Unmarshal(document, new(map[string]any))).To(Succeed())
		}

		for _, text := range expected {
			Expect(string(content)).To(ContainSubstring(text))
		}
	},
		Entry("the APIs of the garden", "apis.yaml", "name: v1beta1.core.gardener.cloud", "caBundle: Q0E=", "addresses: [10.250.3.1]"),
		Entry("gardener-controller-manager", "controller-manager.yaml", "port: 17719"),
		Entry("the values of gardenlet", "gardenlet.yaml", `{"kind":"Config"}`, "pods: 10.248.0.0/16", "zones: [zone-n1]", "tag: v1.150.0", `imageVectorOverwrite: "images:\n- name: etcd-wrapper\n"`),
		Entry("the Shoot", "shoot.yaml", "version: 1.36.4"),
		Entry("the access of this machine", "access.yaml", "namespace: shoot--local--local", "cidr: 10.250.4.1/32"),
		Entry("the simulated node", "seed.yaml", "name: simulated"),
	)

	It("returns the error of Helm", func(ctx SpecContext) {
		_, err := manager.write(ctx, manager.Garden, "garden.yaml")
		Expect(err).To(MatchError(ContainSubstring("packing the chart provider-local")))
	})

	It("registers the operator with other values of its chart, and nothing else", func() {
		path, err := manager.registration(manager.Garden.Root, map[string]any{"image": map[string]any{"ref": "seed.local/operator:1"}})
		Expect(err).NotTo(HaveOccurred())
		content, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())

		deployment, kinds := map[string]any{}, []any(nil)
		for _, document := range bytes.Split(content, []byte("\n---\n")) {
			object := map[string]any{}
			Expect(yaml.Unmarshal(document, &object)).To(Succeed())
			if object["kind"] == "ControllerDeployment" {
				deployment = object["helm"].(map[string]any)
			}
			if object["kind"] != nil {
				kinds = append(kinds, object["kind"])
			}
		}

		Expect(kinds).To(Equal([]any{"ControllerDeployment", "ControllerRegistration"}))
		Expect(deployment).To(HaveKeyWithValue("values", map[string]any{"image": map[string]any{"ref": "seed.local/operator:1"}}))
		Expect(deployment["rawChart"]).NotTo(BeEmpty())
	})
})
