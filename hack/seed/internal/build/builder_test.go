// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
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
