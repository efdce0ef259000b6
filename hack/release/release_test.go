// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	helmloader "helm.sh/helm/v4/pkg/chart/v2/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const repository = "../.."

// packed is a file of an archive.
type packed struct {
	mode     fs.FileMode
	modified time.Time
	content  []byte
}

func unpack(name string, content []byte) map[string]packed {
	GinkgoHelper()
	files := map[string]packed{}
	if strings.HasSuffix(name, ".zip") {
		reader, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range reader.File {
			opened, err := file.Open()
			Expect(err).NotTo(HaveOccurred())
			data, err := io.ReadAll(opened)
			Expect(err).NotTo(HaveOccurred())
			files[file.Name] = packed{file.Mode().Perm(), file.Modified, data}
		}

		return files
	}
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	Expect(err).NotTo(HaveOccurred())
	reader := tar.NewReader(compressed)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		data, err := io.ReadAll(reader)
		Expect(err).NotTo(HaveOccurred())
		files[header.Name] = packed{header.FileInfo().Mode().Perm(), header.ModTime, data}
	}
}

// copyOfRepository copies the files of the repository into another directory, without the history of git.
func copyOfRepository() string {
	GinkgoHelper()
	directory := filepath.Join(GinkgoT().TempDir(), "another", "directory")
	source, err := filepath.Abs(repository)
	Expect(err).NotTo(HaveOccurred())
	Expect(filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, entry.Name()) && filepath.Dir(path) == source {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(source, path)
		if err != nil || entry.IsDir() || entry.Name() == ".git" { // a file in a worktree of git
			return err
		}
		target := filepath.Join(directory, relative)
		if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path) // #nosec G304 G122 -- a file of the repository
		if err != nil {
			return err
		}

		return os.WriteFile(target, content, info.Mode().Perm()) // #nosec G703 -- a copy in the directory of the test
	})).To(Succeed())

	return directory
}

func readAll(directory string) map[string][]byte {
	GinkgoHelper()
	entries, err := os.ReadDir(directory)
	Expect(err).NotTo(HaveOccurred())
	files := map[string][]byte{}
	for _, entry := range entries {
		files[entry.Name()], err = os.ReadFile(filepath.Join(directory, entry.Name()))
		Expect(err).NotTo(HaveOccurred())
	}

	return files
}

var _ = Describe("A release", Ordered, func() {
	// Two of the six platforms: each of them needs a minute if the build cache of Go is empty.
	tested := []platform{{"linux", "amd64"}, {"windows", "amd64"}}
	modified := time.Date(2026, time.January, 2, 3, 4, 6, 0, time.UTC)
	var files map[string][]byte

	build := func(ctx context.Context, root string) map[string][]byte {
		GinkgoHelper()
		r := release{root: root, out: filepath.Join(GinkgoT().TempDir(), "dist"), version: "v0.1.0-test", modified: modified, platforms: tested, programs: imagePrograms[1:]}
		Expect(r.write(ctx)).To(Succeed())

		return readAll(r.out)
	}

	BeforeAll(func(ctx SpecContext) { files = build(ctx, repository) })

	It("has equal bytes if another directory without a history is built in another time zone", func(ctx SpecContext) {
		GinkgoT().Setenv("TZ", "Asia/Tokyo")
		Expect(modified.In(time.FixedZone("", 9*60*60)).Equal(modified)).To(BeTrue())
		again := build(ctx, copyOfRepository())
		Expect(slices.Sorted(maps.Keys(again))).To(Equal(slices.Sorted(maps.Keys(files))))
		for name, content := range files {
			Expect(bytes.Equal(again[name], content)).To(BeTrue(), "%s differs", name)
		}
	})

	It("contains the plugin, the license and the bill of materials in each archive, with the time of the commit", func() {
		for _, p := range tested {
			archived := unpack(p.Archive(), files[p.Archive()])
			Expect(archived).To(And(HaveLen(3), HaveKey("LICENSE"), HaveKey(p.Binary()), HaveKey("kubectl-etcd.cdx.json")))
			for name, file := range archived {
				Expect(file.modified).To(BeTemporally("==", modified), name)
			}
			Expect(archived[p.Binary()].mode).To(Equal(fs.FileMode(0o755)))
			info, err := buildinfo.Read(bytes.NewReader(archived[p.Binary()].content))
			Expect(err).NotTo(HaveOccurred())
			settings := map[string]string{}
			for _, setting := range info.Settings {
				settings[setting.Key] = setting.Value
			}
			Expect(settings).To(And(HaveKeyWithValue("GOOS", p.OS), HaveKeyWithValue("GOARCH", p.Arch), HaveKeyWithValue("CGO_ENABLED", "0"), HaveKeyWithValue("-trimpath", "true")))
			Expect(bytes.Contains(archived[p.Binary()].content, []byte("/hack/release"))).To(BeFalse())
		}
	})

	It("contains a plugin that prints its version", func(ctx SpecContext) {
		if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
			Skip("the test builds only linux/amd64 and windows/amd64")
		}
		binary := filepath.Join(GinkgoT().TempDir(), "kubectl-etcd")
		Expect(os.WriteFile(binary, unpack("a.tar.gz", files["kubectl-etcd-linux-amd64.tar.gz"])["kubectl-etcd"].content, 0o700)).To(Succeed()) // #nosec G306 -- a program
		output, err := exec.CommandContext(ctx, binary, "--version").CombinedOutput()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(output)).To(ContainSubstring("v0.1.0-test"))
	})

	It("lists the modules of each program", func() {
		for name, content := range map[string][]byte{
			"github.com/spf13/cobra": unpack("a.zip", files["kubectl-etcd-windows-amd64.zip"])["kubectl-etcd.cdx.json"].content, "go.etcd.io/bbolt": files["etcd-helper.cdx.json"],
		} {
			materials := struct {
				BOMFormat, SpecVersion string
				Components             []struct{ Name, Version, PURL string }
			}{}
			Expect(json.Unmarshal(content, &materials)).To(Succeed())
			Expect(materials.BOMFormat).To(Equal("CycloneDX"))
			Expect(materials.Components).To(ContainElement(And(HaveField("Name", name), HaveField("Version", HavePrefix("v")))))
			Expect(materials.Components).NotTo(ContainElement(Or(HaveField("Version", "(devel)"), HaveField("Name", HavePrefix(".")))))
		}
	})

	It("contains the chart with the version, which Helm loads", func() {
		content := files["gardener-extension-etcd-druid-0.1.0-test.tgz"]
		loaded, err := helmloader.LoadArchive(bytes.NewReader(content))
		Expect(err).NotTo(HaveOccurred())
		Expect(loaded.Validate()).To(Succeed())
		Expect(loaded.Metadata.Version).To(Equal("0.1.0-test"))
		Expect(loaded.Metadata.AppVersion).To(Equal("v0.1.0-test"))
		Expect(loaded.Schema).NotTo(BeEmpty())
		Expect(loaded.Templates).NotTo(BeEmpty())
	})

	It("has a krew manifest with the checksums of the archives", func() {
		manifest := struct {
			APIVersion, Kind string
			Metadata         map[string]string
			Spec             struct {
				Version, Homepage, ShortDescription, Description string
				Platforms                                        []struct {
					Selector         metav1.LabelSelector
					URI, SHA256, Bin string
				}
			}
		}{}
		Expect(yaml.UnmarshalStrict(files["etcd.yaml"], &manifest)).To(Succeed())
		Expect(manifest.Metadata).To(HaveKeyWithValue("name", "etcd"))
		Expect(manifest.Spec.Version).To(Equal("v0.1.0-test"))
		Expect(manifest.Spec.Platforms).To(HaveLen(len(tested)))
		for i, p := range manifest.Spec.Platforms {
			Expect(p.Selector.MatchLabels).To(Equal(map[string]string{"os": tested[i].OS, "arch": tested[i].Arch}))
			Expect(p.URI).To(HaveSuffix("/releases/download/v0.1.0-test/" + tested[i].Archive()))
			Expect(p.SHA256).To(Equal(fmt.Sprintf("%x", sha256.Sum256(files[tested[i].Archive()]))))
			Expect(unpack(tested[i].Archive(), files[tested[i].Archive()])).To(HaveKey(p.Bin))
		}
	})

	It("has the checksums of all other files", func() {
		lines := strings.Split(strings.TrimSpace(string(files["SHA256SUMS"])), "\n")
		Expect(lines).To(HaveLen(len(files) - 1))
		Expect(slices.IsSortedFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })).To(BeTrue())
		for _, line := range lines {
			sum, name, _ := strings.Cut(line, "  ")
			Expect(sum).To(Equal(fmt.Sprintf("%x", sha256.Sum256(files[name]))), name)
		}
	})

	It("has release notes with the section of the changelog", func() {
		Expect(string(files["release-notes.md"])).To(And(
			HavePrefix("# v0.1.0-test\n\n"), ContainSubstring("### Added"), ContainSubstring("- `etcd.yaml`"), ContainSubstring("- `gardener-extension-etcd-druid-0.1.0-test.tgz`"),
			ContainSubstring("/blob/v0.1.0-test/docs/operations/migration.md)"), Not(ContainSubstring("](docs/"))))
	})
})

var _ = Describe("The inputs of a release", func() {
	It("must have a version of the form v1.2.3", func(ctx SpecContext) {
		Expect(release{root: repository, out: GinkgoT().TempDir(), version: "1.2"}.write(ctx)).To(MatchError(`the version "1.2" must have the form v1.2.3 or v1.2.3-suffix`))
	})

	DescribeTable("select the section of the changelog",
		func(version, text, message string) {
			got, err := section("# Changelog\n\n## v1.1.0\n\nnew\n\n### Fixed\n\n- a\n\n## v1.0.0\n\nold\n", version)
			if message != "" {
				Expect(err).To(MatchError(message))

				return
			}
			Expect(err).NotTo(HaveOccurred())
			Expect(got).To(Equal(text))
		},
		Entry("the first one", "v1.1.0", "new\n\n### Fixed\n\n- a", ""),
		Entry("the last one", "v1.0.0", "old", ""),
		Entry("that of the version of a prerelease", "v1.1.0-dev", "new\n\n### Fixed\n\n- a", ""),
		Entry("a missing one", "v1.2.0", "", `CHANGELOG.md has no section "## v1.2.0": add it`),
	)

	DescribeTable("contain the time of the files",
		func(ctx SpecContext, epoch string, match func(time.Time, error)) { match(commitTime(ctx, epoch)) },
		Entry("in SOURCE_DATE_EPOCH", "1767323046", func(modified time.Time, err error) {
			Expect(err).NotTo(HaveOccurred())
			Expect(modified).To(Equal(time.Date(2026, time.January, 2, 3, 4, 6, 0, time.UTC)))
		}),
		Entry("which must be a number", "yesterday", func(_ time.Time, err error) {
			Expect(err).To(MatchError(HavePrefix("SOURCE_DATE_EPOCH must be the seconds since 1970")))
		}),
	)
})

var _ = Describe("The workflows", func() {
	It("publish every file of the plugin under its name", func() {
		for workflow, form := range map[string][]string{"build.yaml": {"localReference: ", "}"}, "release.yaml": {"- {name: ", ", "}} {
			content, err := os.ReadFile(filepath.Join(repository, ".github", "workflows", workflow))
			Expect(err).NotTo(HaveOccurred())
			published := []string{krewManifest, checksums}
			for _, p := range platforms {
				published = append(published, p.Archive())
			}
			for _, p := range imagePrograms {
				published = append(published, p.name+billOfMaterialsSuffix)
			}
			for _, name := range published {
				Expect(string(content)).To(ContainSubstring(form[0]+name+form[1]), workflow)
			}
			Expect(strings.Count(string(content), form[0])).To(Equal(len(published)), workflow)
		}
	})
})
