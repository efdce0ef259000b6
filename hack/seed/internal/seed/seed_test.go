// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/seed"
)

var _ = Describe("TryLock", func() {
	var path string

	BeforeEach(func() { path = filepath.Join(GinkgoT().TempDir(), "folder", "lock") })

	lock := func() *os.File {
		GinkgoHelper()

		file, err := seed.TryLock(path)
		Expect(err).NotTo(HaveOccurred())

		if file != nil {
			DeferCleanup(func() { _ = file.Close() })
		}

		return file
	}

	It("locks the file for one process at a time", func() {
		first := lock()
		Expect(first).NotTo(BeNil())
		Expect(lock()).To(BeNil())

		Expect(first.Close()).To(Succeed())
		Expect(lock()).NotTo(BeNil())
	})

	It("locks a new file after the file was removed", func() {
		Expect(lock()).NotTo(BeNil())
		Expect(os.RemoveAll(filepath.Dir(path))).To(Succeed())
		Expect(lock()).NotTo(BeNil())
	})
})

var _ = Describe("NoProxy", func() {
	DescribeTable("adds the seed's networks to the user's setting", func(name, value, expected string) {
		GinkgoT().Setenv("NO_PROXY", "")
		GinkgoT().Setenv("no_proxy", "")
		GinkgoT().Setenv(name, value)

		Expect(seed.NoProxy()).To(Equal(expected))
	},
		Entry("no setting", "NO_PROXY", "", "localhost,127.0.0.1,10.250.0.0/24,10.244.0.0/16,10.96.0.0/16"),
		Entry("the variable in capital letters", "NO_PROXY", "example.org,localhost", "example.org,localhost,127.0.0.1,10.250.0.0/24,10.244.0.0/16,10.96.0.0/16"),
		Entry("the variable in lower-case letters", "no_proxy", "example.org", "example.org,localhost,127.0.0.1,10.250.0.0/24,10.244.0.0/16,10.96.0.0/16"),
	)
})
