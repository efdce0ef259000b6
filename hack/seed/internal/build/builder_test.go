// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
)

// root is the root of the checkout.
var root = filepath.Join("..", "..", "..", "..")

var _ = Describe("Install", func() {
	It("moves the programs into the cache, and removes older builds of this module only", func() {
		cache, built := GinkgoT().TempDir(), GinkgoT().TempDir()
		for _, name := range []string{"etcd-000000000001", "etcd-wrapper-000000000001", "operator"} {
			Expect(os.MkdirAll(filepath.Join(cache, "bin", name), 0o700)).To(Succeed())
		}
		for _, name := range []string{"server", "etcdctl"} {
			Expect(os.WriteFile(filepath.Join(built, name), []byte(name), 0o600)).To(Succeed())
		}

		builder := build.Builder{Layout: layout.Layout{Root: root, Cache: cache}}
		Expect(builder.Install(build.Module{Name: "etcd", Directory: "cluster", Programs: map[string]string{
			"etcd": "go.etcd.io/etcd/server/v3", "etcdctl": "go.etcd.io/etcd/etcdctl/v3",
		}}, built)).To(Succeed())

		left, err := filepath.Glob(filepath.Join(cache, "bin", "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(left).To(ConsistOf(MatchRegexp("/etcd-[0-9a-f]{12}$"), HaveSuffix("/etcd-wrapper-000000000001"), HaveSuffix("/operator")))
		Expect(left).NotTo(ContainElement(HaveSuffix("/etcd-000000000001")))
		program, err := builder.Program(build.Etcd, "etcd")
		Expect(err).NotTo(HaveOccurred())
		Expect(os.ReadFile(program)).To(BeEquivalentTo("server"))
	})
})

var _ = Describe("The plan", func() {
	It("builds the programs of a directory together, and those that share packages with the operator in the first lane", func() {
		lanes := build.Plan(build.Builder{Layout: layout.Layout{Root: root}}, build.Catalogue()...)
		Expect(lanes).To(Equal([2][]string{
			{"etcd, kubernetes, coredns, provisioner, networkpolicies, resource-manager, gardener, helm", "kwok"},
			{"backup-restore", "etcd-wrapper-3.4", "etcd-wrapper-3.5", "object-store", "kind", "pause"},
		}))
	})

	It("sets the version only in the programs of Kubernetes", func() {
		command := build.Command(build.Builder{Layout: layout.Layout{Root: root}}, build.Catalogue()...)
		Expect(command).To(ContainElements("-ldflags=-s -w", HavePrefix("-ldflags=k8s.io/kubernetes/cmd/kubelet=-s -w -X ")))
		Expect(command).NotTo(ContainElement(And(HavePrefix("-ldflags="), ContainSubstring("gardener-resource-manager="))))
	})
})

var _ = Describe("Operator", func() {
	var (
		checkout, out string
		log           *gbytes.Buffer
		builder       build.Builder
	)

	BeforeEach(func() {
		checkout, out, log = GinkgoT().TempDir(), GinkgoT().TempDir(), gbytes.NewBuffer()
		builder = build.Builder{Out: progress.New(log)}
		Expect(os.MkdirAll(filepath.Join(checkout, "cmd", "etcd-helper"), 0o700)).To(Succeed())
		Expect(os.Mkdir(filepath.Join(checkout, "hack"), 0o700)).To(Succeed())
	})

	script := func(text string) {
		GinkgoHelper()
		Expect(os.WriteFile(filepath.Join(checkout, "hack", "build.sh"), []byte("#!/bin/sh\n"+text), 0o700)).To(Succeed()) // #nosec G306 -- a script
	}

	It("builds the commands of another checkout into the directory, and prints what Go has compiled", func(ctx SpecContext) {
		script("echo example.com/a >&2; echo $* >>" + out + "/calls\n")
		Expect(builder.Operator(ctx, checkout, out)).To(Succeed())
		Expect(os.ReadFile(filepath.Join(out, "calls"))).To(BeEquivalentTo("-v -o " + out + "/ ./cmd/...\n-C cmd/etcd-helper -v -o " + out + "/ .\n"))
		Expect(log).To(gbytes.Say("built the operator, kubectl-etcd in .*\n.*built etcd-helper in "))
	})

	It("prints nothing if Go compiles nothing", func(ctx SpecContext) {
		script("")
		Expect(builder.Operator(ctx, checkout, out)).To(Succeed())
		Expect(log.Contents()).To(BeEmpty())
	})

	It("returns the messages of the compiler", func(ctx SpecContext) {
		script("echo 'go: downloading example.com/m v1.0.0\nexample.com/a\n# example.com/a\n./a.go:1:2: undefined: b' >&2; exit 1\n")
		err := builder.Operator(ctx, checkout, out)
		Expect(err).To(MatchError(And(HavePrefix("building the operator, kubectl-etcd in "), HaveSuffix("exit status 1\n# example.com/a\n./a.go:1:2: undefined: b\n"))))
	})
})
