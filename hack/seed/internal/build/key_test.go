// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
)

var _ = Describe("Key", func() {
	var (
		dir    string
		module build.Module
	)

	write := func(name, content string) {
		GinkgoHelper()
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}

	key := func(goVersion string) string {
		GinkgoHelper()

		result, err := build.Key(dir, module, goVersion)
		Expect(err).NotTo(HaveOccurred())

		return result
	}

	BeforeEach(func() {
		dir = GinkgoT().TempDir()
		module = build.Module{Name: "m", Programs: map[string]string{"a": ".", "b": "example.org/b"}}
		write("go.mod", "module m\n")
		write("main.go", "package main\n")
	})

	It("stays the same while nothing changes", func() {
		Expect(key("go1.26.8")).To(HaveLen(12))
		Expect(key("go1.26.8")).To(Equal(key("go1.26.8")))
	})

	DescribeTable("changes", func(change func() string) {
		before := key("go1.26.8")
		Expect(key(change())).NotTo(Equal(before))
	},
		Entry("with go.mod", func() string { write("go.mod", "module n\n"); return "go1.26.8" }),
		Entry("with go.sum", func() string { write("go.sum", "x\n"); return "go1.26.8" }),
		Entry("with a source", func() string { write("main.go", "package main // changed\n"); return "go1.26.8" }),
		Entry("with the flags", func() string { module.LinkerFlags = "-X a=b"; return "go1.26.8" }),
		Entry("with the programs", func() string { module.Programs = map[string]string{"a": "."}; return "go1.26.8" }),
		Entry("with the version of Go", func() string { return "go1.27.0" }),
	)

	It("ignores tests", func() {
		before := key("go1.26.8")

		write("main_test.go", "package main\n")
		Expect(key("go1.26.8")).To(Equal(before))
	})
})

var _ = Describe("Catalogue", func() {
	modules := filepath.Join("..", "..", "modules")

	It("contains exactly the modules in the directory", func() {
		entries, err := os.ReadDir(modules)
		Expect(err).NotTo(HaveOccurred())

		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}

		var listed []string
		for _, module := range build.Catalogue() {
			listed = append(listed, module.Name)
		}

		Expect(listed).To(ConsistOf(names))
	})

	It("contains only programs that the modules pin", func() {
		for _, module := range build.Catalogue() {
			content, err := os.ReadFile(filepath.Join(modules, module.Name, "go.mod"))
			Expect(err).NotTo(HaveOccurred())

			for _, pkg := range module.Programs {
				if pkg != "." {
					Expect(strings.Fields(string(content))).To(ContainElement(pkg), module.Name)
				}
			}
		}
	})

	It("sets the pinned version in the Kubernetes programs", func() {
		content, err := os.ReadFile(filepath.Join(modules, "kubernetes", "go.mod"))
		Expect(err).NotTo(HaveOccurred())

		for _, module := range build.Catalogue() {
			if module.Name == "kubernetes" {
				Expect(module.LinkerFlags).To(ContainSubstring("component-base/version.gitVersion=v1.35.4 "))
			}
		}

		Expect(string(content)).To(ContainSubstring("k8s.io/kubernetes v1.35.4"))
	})
})
