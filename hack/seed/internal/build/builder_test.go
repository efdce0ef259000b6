// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
)

var _ = Describe("Prune", func() {
	It("removes older builds of this module only", func() {
		dir := GinkgoT().TempDir()
		for _, name := range []string{"etcd-000000000001", "etcd-00000000000a", "etcd-wrapper-000000000001", "operator"} {
			Expect(os.Mkdir(filepath.Join(dir, name), 0o700)).To(Succeed())
		}

		build.Builder{}.Prune(dir, build.Module{Name: "etcd"}, "etcd-00000000000a")

		left, err := filepath.Glob(filepath.Join(dir, "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(left).To(ConsistOf(
			filepath.Join(dir, "etcd-00000000000a"), filepath.Join(dir, "etcd-wrapper-000000000001"), filepath.Join(dir, "operator")))
	})
})

var _ = Describe("OperatorIn", func() {
	var checkout, out string

	BeforeEach(func() {
		checkout, out = GinkgoT().TempDir(), GinkgoT().TempDir()
		Expect(os.Mkdir(filepath.Join(checkout, "hack"), 0o700)).To(Succeed())
		// Writes its arguments to the file that follows -o.
		Expect(os.WriteFile(filepath.Join(checkout, "hack", "build.sh"), []byte("#!/bin/sh\nall=$*\nwhile [ $1 != -o ]; do shift; done\necho $PWD $all >$2\n"), 0o700)).To(Succeed()) // #nosec G306 -- a script
	})

	programs := func() []string {
		GinkgoHelper()
		Expect(build.Builder{Out: progress.New(GinkgoWriter)}.At(checkout).OperatorIn(context.Background(), out)).To(Succeed())
		files, err := filepath.Glob(filepath.Join(out, "*"))
		Expect(err).NotTo(HaveOccurred())

		return files
	}

	It("builds both programs of another checkout", func() {
		Expect(os.MkdirAll(filepath.Join(checkout, "cmd", "etcd-helper"), 0o700)).To(Succeed())
		Expect(programs()).To(ConsistOf(filepath.Join(out, "etcd-helper"), filepath.Join(out, "gardener-extension-etcd-druid")))
		Expect(os.ReadFile(filepath.Join(out, "gardener-extension-etcd-druid"))).To(HavePrefix(checkout + " "))
	})

	It("builds only the operator of an early version without etcd-helper", func() {
		Expect(programs()).To(ConsistOf(filepath.Join(out, "gardener-extension-etcd-druid")))
	})
})
