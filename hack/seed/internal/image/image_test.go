// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
)

var _ = Describe("Pack", func() {
	var (
		dir  string
		spec image.Spec
	)

	BeforeEach(func() {
		dir = GinkgoT().TempDir()
		program := filepath.Join(dir, "program")
		Expect(os.WriteFile(program, []byte("content"), 0o600)).To(Succeed())

		spec = image.Spec{
			Tag:        "seed.local/test:1",
			Entrypoint: []string{"/usr/bin/program"},
			User:       "65532:65532",
			Files:      []image.File{{Source: program, Target: "/usr/bin/program"}},
			Links:      map[string]string{"/bin/other": "/usr/bin/program"},
		}
	})

	It("writes one layer with modes, owners and links", func() {
		archive := filepath.Join(dir, "image.tar")
		Expect(image.Pack(spec, archive)).To(Succeed())

		headers := layerOf(archive)
		Expect(headers).To(HaveKeyWithValue("usr/bin/program", HaveField("Mode", int64(0o755))))
		Expect(headers).To(HaveKeyWithValue("home/nonroot/", And(HaveField("Mode", int64(0o700)), HaveField("Uid", 65532), HaveField("Gid", 65532))))
		Expect(headers).To(HaveKeyWithValue("tmp/", HaveField("Mode", int64(0o1777))))
		Expect(headers).To(HaveKeyWithValue("bin/other", HaveField("Linkname", "/usr/bin/program")))
	})

	It("packs an image only once, and removes other archives", func() {
		archives := filepath.Join(dir, "archives")
		first, err := image.EnsureAll([]image.Spec{spec}, archives)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(first[0], nil, 0o600)).To(Succeed())
		Expect(image.EnsureAll([]image.Spec{spec}, archives)).To(Equal(first))
		Expect(first[0]).To(BeARegularFile())
		Expect(os.ReadFile(first[0])).To(BeEmpty(), "it was not packed again")

		spec.User = ""
		second, err := image.EnsureAll([]image.Spec{spec}, archives)
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Glob(filepath.Join(archives, "*"))).To(Equal(second))
		Expect(second).NotTo(Equal(first))
	})

	It("writes the configuration of the image", func() {
		archive := filepath.Join(dir, "image.tar")
		Expect(image.Pack(spec, archive)).To(Succeed())

		packed, err := tarball.ImageFromPath(archive, nil)
		Expect(err).NotTo(HaveOccurred())

		config, err := packed.ConfigFile()
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Config.Entrypoint).To(HaveExactElements("/usr/bin/program"))
		Expect(config.Config.User).To(Equal("65532:65532"))
		Expect(config.OS).To(Equal("linux"))
	})

	It("writes every name of the image", func() {
		spec.Aliases = []string{"registry.example.com/other:v1"}
		archive := filepath.Join(dir, "image.tar")
		Expect(image.Pack(spec, archive)).To(Succeed())

		for _, reference := range []string{"seed.local/test:1", "registry.example.com/other:v1"} {
			tag, err := name.NewTag(reference)
			Expect(err).NotTo(HaveOccurred())
			_, err = tarball.ImageFromPath(archive, &tag)
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("writes equal bytes for equal input", func() {
		first, second := filepath.Join(dir, "first.tar"), filepath.Join(dir, "second.tar")
		Expect(image.Pack(spec, first)).To(Succeed())
		Expect(image.Pack(spec, second)).To(Succeed())

		a, err := os.ReadFile(first)
		Expect(err).NotTo(HaveOccurred())

		b, err := os.ReadFile(second)
		Expect(err).NotTo(HaveOccurred())
		Expect(a).To(Equal(b))
	})

	It("returns an error for a missing file", func() {
		spec.Files[0].Source = filepath.Join(dir, "nothing")
		Expect(image.Pack(spec, filepath.Join(dir, "image.tar"))).To(MatchError(os.ErrNotExist))
	})
})

var _ = Describe("Operator", func() {
	It("returns different tags for different binaries", func() {
		dir := GinkgoT().TempDir()

		tag := func(operator, helper string) string {
			GinkgoHelper()
			Expect(os.WriteFile(filepath.Join(dir, "gardener-extension-etcd-druid"), []byte(operator), 0o600)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(dir, "etcd-helper"), []byte(helper), 0o600)).To(Succeed())

			spec, err := image.Operator(dir)
			Expect(err).NotTo(HaveOccurred())

			return spec.Tag
		}

		Expect(tag("one", "helper")).To(MatchRegexp(`^seed\.local/gardener-extension-etcd-druid:[0-9a-f]{12}$`))
		Expect(tag("one", "helper")).To(Equal(tag("one", "helper")))
		Expect(tag("two", "helper")).NotTo(Equal(tag("one", "helper")))
		Expect(tag("one", "other")).NotTo(Equal(tag("one", "helper")))
	})

	It("needs both programs", func() {
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "gardener-extension-etcd-druid"), []byte("operator"), 0o600)).To(Succeed())
		_, err := image.Operator(dir)
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})

func layerOf(archive string) map[string]*tar.Header {
	GinkgoHelper()

	packed, err := tarball.ImageFromPath(archive, nil)
	Expect(err).NotTo(HaveOccurred())

	layers, err := packed.Layers()
	Expect(err).NotTo(HaveOccurred())
	Expect(layers).To(HaveLen(1))

	content, err := layers[0].Uncompressed()
	Expect(err).NotTo(HaveOccurred())

	defer func() { _ = content.Close() }()

	stream, err := io.ReadAll(content)
	Expect(err).NotTo(HaveOccurred())
	Expect(len(stream)%512).To(BeZero(), "tar archives consist of blocks")
	Expect(bytes.HasSuffix(stream, make([]byte, 1024))).To(BeTrue(), "two empty blocks end a tar archive")

	headers := map[string]*tar.Header{}
	reader := tar.NewReader(bytes.NewReader(stream))

	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}

		Expect(err).NotTo(HaveOccurred())

		headers[header.Name] = header
	}
}
