// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
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

var _ = Describe("The images", func() {
	vector := func(references map[string]string) map[string]map[string]string {
		GinkgoHelper()

		content, err := seed.ImageVector(references)
		Expect(err).NotTo(HaveOccurred())

		var parsed struct{ Images []map[string]string }
		Expect(json.Unmarshal(content, &parsed)).To(Succeed())

		byName := map[string]map[string]string{}

		for _, entry := range parsed.Images {
			Expect(byName).NotTo(HaveKey(entry["name"]))
			byName[entry["name"]] = entry
		}

		return byName
	}

	It("are those of the seed by default", func() {
		Expect(vector(nil)).To(And(
			HaveKeyWithValue("etcd-wrapper", HaveKeyWithValue("repository", "seed.local/etcd-wrapper")),
			HaveKeyWithValue("etcd-backup-restore", HaveKeyWithValue("repository", "seed.local/etcd-backup-restore")),
		))
	})

	It("are those of the user for the names that the user replaces", func() {
		reference := "seed.local/etcd-wrapper@sha256:0123"
		images := vector(map[string]string{"etcd-wrapper": reference, "etcd-backup-restore-next": "seed.local/a:1"})
		Expect(images["etcd-wrapper"]).To(Equal(map[string]string{"name": "etcd-wrapper", "ref": reference}))
		Expect(images["etcd-backup-restore-next"]).To(Equal(map[string]string{"name": "etcd-backup-restore-next", "ref": "seed.local/a:1"}))
		Expect(images["etcd-backup-restore"]).To(HaveKeyWithValue("repository", "seed.local/etcd-backup-restore"))
	})

	DescribeTable("are archives or references", func(value string, expected bool) {
		Expect(seed.IsArchive(value, filepath.Join("testdata-that-does-not-exist", value))).To(Equal(expected))
	},
		Entry("an absolute path", "/tmp/wrapper", true),
		Entry("a path in the directory above", "../wrapper", true),
		Entry("an archive that does not exist", "images/wrapper.tar", true),
		Entry("a reference", "example.com/team/etcd-wrapper:v0.6.2", false),
		Entry("a reference with a digest", "example.com/team/etcd-wrapper@sha256:0123", false),
	)

	It("are archives if the file exists", func() {
		file := filepath.Join(GinkgoT().TempDir(), "wrapper")
		Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
		Expect(seed.IsArchive("wrapper", file)).To(BeTrue())
	})

	It("that no node has result in an error with the variable and the remedy", func() {
		Expect(seed.MissingImage("SIDECAR", "example.com/sidecar:1", "n2")).To(MatchError(And(
			ContainSubstring("SIDECAR=example.com/sidecar:1: node n2 does not have this image"),
			ContainSubstring("skopeo copy docker://example.com/sidecar:1 docker-archive:image.tar"),
		)))
	})
})

var _ = Describe("The settings of the chart", func() {
	var s *seed.Seed

	BeforeEach(func() {
		var err error
		s, err = seed.New(layout.Seed, progress.New(GinkgoWriter))
		Expect(err).NotTo(HaveOccurred())
	})

	It("are those of the seed by default", func() {
		Expect(s.Settings("")).To(And(HaveKey("config"), HaveKey("protection")))
	})

	It("are only those of the file, whose path starts at the root of the checkout", func() {
		Expect(s.Settings("test/e2e/testdata/upgrade-values.yaml")).To(And(HaveKey("protection"), Not(HaveKey("config"))))
	})

	It("are an error if the file does not exist or is no YAML", func() {
		file := filepath.Join(GinkgoT().TempDir(), "values.yaml")
		_, err := s.Settings(file)
		Expect(err).To(MatchError(os.ErrNotExist))

		Expect(os.WriteFile(file, []byte("- a list"), 0o600)).To(Succeed())
		_, err = s.Settings(file)
		Expect(err).To(MatchError(ContainSubstring("reading the values in " + file)))
	})
})

var _ = Describe("KindUp", func() {
	It("prints a valid configuration of kind and the arguments of Helm without a container engine", func() {
		s, err := seed.New(layout.Seed, progress.New(GinkgoWriter))
		Expect(err).NotTo(HaveOccurred())

		out := &bytes.Buffer{}
		Expect(s.KindUp(context.Background(), true, out)).To(Succeed())

		config, rest, found := strings.Cut(out.String(), "---\n")
		Expect(found).To(BeTrue())
		parsed := &v1alpha4.Cluster{}
		Expect(yaml.UnmarshalStrict([]byte(config), parsed)).To(Succeed())
		Expect(parsed.Nodes).To(HaveLen(4))
		Expect(rest).To(And(ContainSubstring("upgrade"), ContainSubstring("test/e2e/values.yaml"), ContainSubstring("image.tag=TAG"), Not(ContainSubstring("imageVectorOverwrite"))))
	})
})
