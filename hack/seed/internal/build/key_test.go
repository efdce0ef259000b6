// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/mod/modfile"

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

		result, err := build.Key(filepath.Dir(dir), module, goVersion)
		Expect(err).NotTo(HaveOccurred())

		return result
	}

	BeforeEach(func() {
		dir = GinkgoT().TempDir()
		module = build.Module{Name: filepath.Base(dir), Programs: map[string]string{"a": ".", "b": "example.org/b"}}
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

	It("changes with the sources of the shared module", func() {
		module.Shared = filepath.Base(dir)
		dir = GinkgoT().TempDir() // next to the other one
		module.Name = filepath.Base(dir)

		write("go.mod", "module other\n")
		before := key("go1.26.8")
		Expect(os.WriteFile(filepath.Join(filepath.Dir(dir), module.Shared, "main.go"), []byte("package main // changed\n"), 0o600)).To(Succeed())
		Expect(key("go1.26.8")).NotTo(Equal(before))
	})

	It("ignores tests", func() {
		before := key("go1.26.8")

		write("main_test.go", "package main\n")
		Expect(key("go1.26.8")).To(Equal(before))
	})
})

var _ = Describe("Key of a module that shares its directory", func() {
	It("changes with go.mod and its own sources, and with no others", func() {
		dir := GinkgoT().TempDir()
		write := func(name, content string) {
			Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
		}
		keys := func() (string, string) {
			one, err := build.Key(filepath.Dir(dir), build.Module{Directory: filepath.Base(dir), Programs: map[string]string{"one": "./one"}}, "go1.26.8")
			Expect(err).NotTo(HaveOccurred())
			tool, err := build.Key(filepath.Dir(dir), build.Module{Directory: filepath.Base(dir), Programs: map[string]string{"tool": "example.org/tool"}}, "go1.26.8")
			Expect(err).NotTo(HaveOccurred())

			return one, tool
		}

		write("go.mod", "module m\n")
		write("one/main.go", "package main\n")
		one, tool := keys()

		write("two/main.go", "package main\n")
		sameOne, sameTool := keys()
		Expect([]string{sameOne, sameTool}).To(Equal([]string{one, tool}))

		write("one/main.go", "package main // changed\n")
		otherOne, sameTool := keys()
		Expect(otherOne).NotTo(Equal(one))
		Expect(sameTool).To(Equal(tool))

		write("go.mod", "module n\n")
		anotherOne, otherTool := keys()
		Expect(anotherOne).NotTo(Equal(otherOne))
		Expect(otherTool).NotTo(Equal(tool))
	})
})

var _ = Describe("Catalogue", func() {
	modules := filepath.Join("..", "..", "modules")

	goMod := func(directory string) *modfile.File {
		GinkgoHelper()

		path := filepath.Join(directory, "go.mod")
		content, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		parsed, err := modfile.Parse(path, content, nil)
		Expect(err).NotTo(HaveOccurred())

		return parsed
	}

	It("contains exactly the directories of modules", func() {
		entries, err := os.ReadDir(modules)
		Expect(err).NotTo(HaveOccurred())

		names := map[string]bool{}
		for _, entry := range entries {
			names[entry.Name()] = true
		}

		directories := map[string]bool{}
		for _, module := range build.Catalogue() {
			first, _, _ := strings.Cut(cmp.Or(module.Directory, module.Name), "/")
			directories[first] = true
		}

		Expect(directories).To(Equal(names))
	})

	It("contains only programs that the modules pin or contain", func() {
		for _, module := range build.Catalogue() {
			directory := filepath.Join(modules, cmp.Or(module.Directory, module.Name))

			var pinned []string
			for _, tool := range goMod(directory).Tool {
				pinned = append(pinned, tool.Path)
			}

			for _, pkg := range module.Programs {
				if strings.HasPrefix(pkg, ".") {
					Expect(filepath.Join(directory, pkg, "main.go")).To(BeARegularFile())
				} else {
					Expect(pinned).To(ContainElement(pkg), module.Name)
				}
			}
		}
	})

	It("names the module of each relative replacement", func() {
		for _, module := range build.Catalogue() {
			directory := cmp.Or(module.Directory, module.Name)
			shared := ""

			for _, replace := range goMod(filepath.Join(modules, directory)).Replace {
				if strings.HasPrefix(replace.New.Path, ".") {
					shared = filepath.Join(directory, replace.New.Path)
				}
			}

			Expect(module.Shared).To(Equal(shared), module.Name)
		}
	})

	It("sets the pinned version in the programs of Kubernetes and of Gardener", func() {
		pinned := versions(goMod(filepath.Join(modules, "cluster")))
		for _, module := range build.Catalogue() {
			if name, has := map[string]string{build.Kubernetes: "k8s.io/kubernetes", build.Gardener: "github.com/gardener/gardener"}[module.Name]; has {
				Expect(module.LinkerFlags + " ").To(ContainSubstring("component-base/version.gitVersion=" + pinned[name] + " "))
			}
		}
	})

	// Otherwise `seed up` compiles thousands of packages twice.
	DescribeTable("pins the programs of the cluster to the versions that other modules are built with", func(directory string) {
		cluster := versions(goMod(filepath.Join(modules, "cluster")))

		shared := 0
		for path, version := range versions(goMod(directory)) {
			if other, is := cluster[path]; is {
				shared++

				Expect(other).To(Equal(version), path)
			}
		}

		Expect(shared).To(BeNumerically(">", 20))
	},
		Entry("the operator", filepath.Join("..", "..", "..", "..")),
		Entry("etcd-helper", filepath.Join("..", "..", "..", "..", "cmd", "etcd-helper")),
	)
})

// versions returns the version of each module that the file requires or replaces.
func versions(file *modfile.File) map[string]string {
	result := map[string]string{}

	for _, require := range file.Require {
		result[require.Mod.Path] = require.Mod.Version
	}

	for _, replace := range file.Replace {
		result[replace.Old.Path] = replace.New.Version
	}

	return result
}
