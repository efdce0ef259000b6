// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"archive/tar"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	containerv1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
)

const repository = "seed.local/etcd-wrapper"

var _ = Describe("Repack", func() {
	var dir string

	BeforeEach(func() { dir = GinkgoT().TempDir() })

	// packed returns a docker archive with the content and the tag.
	packed := func(content, tag string) string {
		GinkgoHelper()

		program, archive := filepath.Join(dir, "program"), filepath.Join(dir, content+".tar")
		Expect(os.WriteFile(program, []byte(content), 0o600)).To(Succeed())
		Expect(image.Pack(image.Spec{Tag: tag, Files: []image.File{{Source: program, Target: "/program"}}}, archive)).To(Succeed())

		return archive
	}

	// loaded returns the image of a docker archive.
	loaded := func(archive string) containerv1.Image {
		GinkgoHelper()

		img, err := tarball.ImageFromPath(archive, nil)
		Expect(err).NotTo(HaveOccurred())

		return img
	}

	It("gives the image a name with its tag and its digest", func() {
		file, reference, err := image.Repack(packed("a", "example.com/team/wrapper:v0.6.2"), repository, filepath.Join(dir, "out"))
		Expect(err).NotTo(HaveOccurred())
		Expect(reference).To(MatchRegexp(`^seed\.local/etcd-wrapper:v0\.6\.2-[0-9a-f]{12}$`))

		tag, err := name.NewTag(reference)
		Expect(err).NotTo(HaveOccurred())
		_, err = tarball.ImageFromPath(file, &tag)
		Expect(err).NotTo(HaveOccurred())

		_, other, err := image.Repack(packed("b", "example.com/team/wrapper:v0.6.2"), repository, filepath.Join(dir, "out"))
		Expect(err).NotTo(HaveOccurred())
		Expect(other).NotTo(Equal(reference))
	})

	It("reads an archive whose image has no name", func() {
		unnamed := filepath.Join(dir, "unnamed.tar")
		img := loaded(packed("a", "seed.local/test:1"))
		digest, err := name.NewDigest("seed.local/test@sha256:" + "0123456789012345678901234567890123456789012345678901234567890123")
		Expect(err).NotTo(HaveOccurred())
		Expect(tarball.WriteToFile(unnamed, digest, img)).To(Succeed())

		_, reference, err := image.Repack(unnamed, repository, dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(reference).To(MatchRegexp(`^seed\.local/etcd-wrapper:(i-was-a-digest-)?[0-9a-f]{12}$`))
	})

	DescribeTable("returns an error with the reason", func(archive func() string, reason string) {
		_, _, err := image.Repack(archive(), repository, dir)
		Expect(err).To(MatchError(ContainSubstring(reason)))
	},
		Entry("no file", func() string { return filepath.Join(dir, "none.tar") }, "no such file"),
		Entry("no tar file", func() string {
			file := filepath.Join(dir, "text")
			Expect(os.WriteFile(file, []byte("text"), 0o600)).To(Succeed())

			return file
		}, "it is no docker archive"),
		Entry("another tar file", func() string {
			archive := filepath.Join(dir, "other.tar")
			file, err := os.Create(archive)
			Expect(err).NotTo(HaveOccurred())
			Expect(tar.NewWriter(file).Close()).To(Succeed())
			Expect(file.Close()).To(Succeed())

			return archive
		}, "skopeo copy oci-archive:"),
		Entry("two images", func() string {
			archive := filepath.Join(dir, "two.tar")
			one, two := name.MustParseReference("seed.local/one:1"), name.MustParseReference("seed.local/two:1")
			Expect(tarball.MultiRefWriteToFile(archive, map[name.Reference]containerv1.Image{one: loaded(packed("a", "seed.local/a:1")), two: loaded(packed("b", "seed.local/b:1"))})).To(Succeed())

			return archive
		}, "it contains 2 images"),
		Entry("an image for another architecture", func() string {
			archive, tag := filepath.Join(dir, "other.tar"), name.MustParseReference("seed.local/a:1")
			img := loaded(packed("a", tag.Name()))
			config, err := img.ConfigFile()
			Expect(err).NotTo(HaveOccurred())
			config.Architecture = "mips"
			img, err = mutate.ConfigFile(img, config)
			Expect(err).NotTo(HaveOccurred())
			Expect(tarball.WriteToFile(archive, tag, img)).To(Succeed())

			return archive
		}, "for the architecture mips"),
	)
})
