// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package imagevector_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/imagevector"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
)

var _ = Describe("Sets", func() {
	overwrite := func(content string) {
		path := filepath.Join(GinkgoT().TempDir(), "images.yaml")
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		GinkgoT().Setenv("IMAGEVECTOR_OVERWRITE", path)
	}

	BeforeEach(func() {
		GinkgoT().Setenv("IMAGEVECTOR_OVERWRITE", "")
		Expect(os.Unsetenv("IMAGEVECTOR_OVERWRITE")).To(Succeed())
	})

	It("should have built-in references for each supported version of etcd", func() {
		sets, err := imagevector.Sets()
		Expect(err).NotTo(HaveOccurred())
		Expect(sets).To(HaveLen(len(etcdversion.Supported())))

		for _, minor := range etcdversion.Supported() {
			Expect(sets[minor].EtcdWrapper).To(MatchRegexp(`^[a-z.-]+/.*/etcd-wrapper:v\d+\.\d+\.\d+$`), minor)
			Expect(sets[minor].BackupRestore).To(MatchRegexp(`^[a-z.-]+/.*/etcdbrctl:v\d+\.\d+\.\d+$`), minor)
			Expect(sets[minor].Init).To(MatchRegexp(`^[a-z.-]+/.*/alpine:\d+\.\d+\.\d+$`), minor)
		}

		Expect(sets[etcdversion.V35].EtcdWrapper).NotTo(Equal(sets[etcdversion.V34].EtcdWrapper))
		Expect(sets[etcdversion.V35].BackupRestore).NotTo(Equal(sets[etcdversion.V34].BackupRestore))
	})

	DescribeTable("should replace only what the overwrite names, in the set of its version",
		func(name, minor string) {
			expected, err := imagevector.Sets()
			Expect(err).NotTo(HaveOccurred())

			replaced := expected[minor]
			replaced.BackupRestore = "example.com/br:v9"
			expected[minor] = replaced
			overwrite("images:\n- name: " + name + "\n  ref: example.com/br:v9\n")

			sets, err := imagevector.Sets()
			Expect(err).NotTo(HaveOccurred())
			Expect(sets).To(Equal(expected))
		},
		Entry("etcd 3.4", "etcd-backup-restore", "3.4"),
		Entry("etcd 3.5", "etcd-backup-restore-next", "3.5"),
	)

	DescribeTable("should keep the digest of an overwrite, and add none",
		func(entry, reference string) {
			overwrite("images:\n- name: etcd-backup-restore\n" + entry)

			sets, err := imagevector.Sets()
			Expect(err).NotTo(HaveOccurred())
			Expect(sets[etcdversion.V34].BackupRestore).To(Equal(reference))
		},
		Entry("a reference with a digest", "  ref: example.com/br@sha256:0a1b\n", "example.com/br@sha256:0a1b"),
		Entry("a reference with a tag and a digest", "  ref: example.com:5000/br:v9@sha256:0a1b\n", "example.com:5000/br:v9@sha256:0a1b"),
		Entry("a digest instead of a tag", "  repository: example.com/br\n  tag: sha256:0a1b\n", "example.com/br@sha256:0a1b"),
		Entry("a tag with a digest", "  repository: example.com/br\n  tag: v9@sha256:0a1b\n", "example.com/br:v9@sha256:0a1b"),
		Entry("a tag without a digest", "  repository: example.com/br\n  tag: v9\n", "example.com/br:v9"),
	)

	It("should name the environment variable when its file is no image vector", func() {
		overwrite("images: 1\n")

		_, err := imagevector.Sets()
		Expect(err).To(MatchError(ContainSubstring("IMAGEVECTOR_OVERWRITE")))
	})
})
