// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/node"
)

var _ = Describe("Files", func() {
	var files map[string]string

	BeforeEach(func() {
		var err error

		files, err = node.Files(layout.Layout{Run: "/run/x"}, layout.Seed.Node(2))
		Expect(err).NotTo(HaveOccurred())
	})

	It("returns the golden files", func() {
		for name, content := range files {
			golden := filepath.Join("testdata", filepath.Base(name)+".golden")
			if os.Getenv("UPDATE_GOLDEN") == "1" {
				Expect(os.WriteFile(golden, []byte(content), 0o600)).To(Succeed())
			}

			expected, err := os.ReadFile(golden)
			Expect(err).NotTo(HaveOccurred())
			Expect(content).To(Equal(string(expected)), name)
		}
	})

	It("returns valid configuration files", func() {
		var kubelet, proxy, cni map[string]any
		Expect(yaml.UnmarshalStrict([]byte(files["kubelet.yaml"]), &kubelet)).To(Succeed())
		Expect(kubelet).To(HaveKeyWithValue("cgroupRoot", "/druid-seed/n2"))
		Expect(yaml.UnmarshalStrict([]byte(files["kube-proxy.yaml"]), &proxy)).To(Succeed())
		Expect(proxy).To(HaveKeyWithValue("hostnameOverride", "n2"))
		Expect(json.Unmarshal([]byte(files["cni/10-seed.conflist"]), &cni)).To(Succeed())
	})
})

var _ = Describe("IsShim", func() {
	DescribeTable("identifies the shims of one containerd", func(commandLine string, expected bool) {
		Expect(node.IsShim([]byte(commandLine), "/run/x/n1/containerd.sock")).To(Equal(expected))
	},
		Entry("a shim of this containerd", "/usr/bin/containerd-shim-runc-v2\x00-namespace\x00k8s.io\x00-id\x00a\x00-address\x00/run/x/n1/containerd.sock\x00", true),
		Entry("a shim of another node", "/usr/bin/containerd-shim-runc-v2\x00-address\x00/run/x/n2/containerd.sock\x00", false),
		Entry("another program that names the socket", "/usr/bin/ctr\x00-address\x00/run/x/n1/containerd.sock\x00", false),
		Entry("a kernel thread without a command line", "", false),
	)
})

var _ = Describe("WriteFiles", func() {
	It("does not write an unchanged file, since kube-proxy exits when its file is written", func() {
		l, node1 := layout.Layout{Run: GinkgoT().TempDir()}, layout.Seed.Node(1)
		file := filepath.Join(l.NodeDir(node1), "kube-proxy.yaml")
		before := time.Unix(1000, 0)

		Expect(node.WriteFiles(l, node1)).To(Succeed())
		Expect(os.Chtimes(file, before, before)).To(Succeed())
		Expect(node.WriteFiles(l, node1)).To(Succeed())

		info, err := os.Stat(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.ModTime()).To(BeTemporally("==", before))

		By("writing a file whose content has changed")
		Expect(os.WriteFile(file, []byte("old"), 0o600)).To(Succeed())
		Expect(node.WriteFiles(l, node1)).To(Succeed())
		Expect(os.ReadFile(file)).To(ContainSubstring("KubeProxyConfiguration"))
	})
})
