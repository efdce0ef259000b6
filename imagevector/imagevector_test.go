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
)

var _ = Describe("Images", func() {
	overwrite := func(content string) {
		path := filepath.Join(GinkgoT().TempDir(), "images.yaml")
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		GinkgoT().Setenv("IMAGEVECTOR_OVERWRITE", path)
	}

	BeforeEach(func() {
		GinkgoT().Setenv("IMAGEVECTOR_OVERWRITE", "")
		Expect(os.Unsetenv("IMAGEVECTOR_OVERWRITE")).To(Succeed())
	})

	It("should return the built-in references", func() {
		images, err := imagevector.Images()
		Expect(err).NotTo(HaveOccurred())
		Expect(images.EtcdWrapper).To(MatchRegexp(`^[a-z.-]+/.*/etcd-wrapper:v\d+\.\d+\.\d+$`))
		Expect(images.BackupRestore).To(MatchRegexp(`^[a-z.-]+/.*/etcdbrctl:v\d+\.\d+\.\d+$`))
		Expect(images.Init).To(MatchRegexp(`^[a-z.-]+/.*/alpine:\d+\.\d+\.\d+$`))
	})

	It("should replace only what the overwrite names", func() {
		builtIn, err := imagevector.Images()
		Expect(err).NotTo(HaveOccurred())
		overwrite("images:\n- name: etcd-backup-restore\n  ref: example.com/br:v9\n")

		images, err := imagevector.Images()
		Expect(err).NotTo(HaveOccurred())
		Expect(images).To(Equal(imagevector.Set{EtcdWrapper: builtIn.EtcdWrapper, BackupRestore: "example.com/br:v9", Init: builtIn.Init}))
	})

	DescribeTable("should keep the digest of an overwrite, and add none",
		func(entry, reference string) {
			overwrite("images:\n- name: etcd-backup-restore\n" + entry)

			images, err := imagevector.Images()
			Expect(err).NotTo(HaveOccurred())
			Expect(images.BackupRestore).To(Equal(reference))
		},
		Entry("a reference with a digest", "  ref: example.com/br@sha256:0a1b\n", "example.com/br@sha256:0a1b"),
		Entry("a reference with a tag and a digest", "  ref: example.com:5000/br:v9@sha256:0a1b\n", "example.com:5000/br:v9@sha256:0a1b"),
		Entry("a digest instead of a tag", "  repository: example.com/br\n  tag: sha256:0a1b\n", "example.com/br@sha256:0a1b"),
		Entry("a tag with a digest", "  repository: example.com/br\n  tag: v9@sha256:0a1b\n", "example.com/br:v9@sha256:0a1b"),
		Entry("a tag without a digest", "  repository: example.com/br\n  tag: v9\n", "example.com/br:v9"),
	)

	It("should name the environment variable when its file is no image vector", func() {
		overwrite("images: 1\n")

		_, err := imagevector.Images()
		Expect(err).To(MatchError(ContainSubstring("IMAGEVECTOR_OVERWRITE")))
	})
})
