// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"encoding/json"
	goversion "go/version"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
)

// The tests read the Dockerfile. They cannot build it, since they must pass without access to a registry.
var _ = Describe("the Dockerfile", func() {
	var (
		builder, final []instruction
		spec           image.Spec
	)

	BeforeEach(func() {
		all := instructions()
		second := slices.IndexFunc(all[1:], func(i instruction) bool { return i.name == "FROM" }) + 1
		builder, final = all[:second], all[second:]

		dir := GinkgoT().TempDir()
		for _, program := range []string{"gardener-extension-etcd-druid", "etcd-helper"} {
			Expect(os.WriteFile(filepath.Join(dir, program), []byte("content"), 0o600)).To(Succeed())
		}

		var err error
		spec, err = image.Operator(dir)
		Expect(err).NotTo(HaveOccurred())
	})

	It("creates an image with the same files, labels, user, working directory and entrypoint as the seed", func() {
		archive := filepath.Join(GinkgoT().TempDir(), "image.tar")
		Expect(image.Pack(spec, archive)).To(Succeed())
		packed, err := tarball.ImageFromPath(archive, nil)
		Expect(err).NotTo(HaveOccurred())
		config, err := packed.ConfigFile()
		Expect(err).NotTo(HaveOccurred())

		entrypoint, err := json.Marshal(config.Config.Entrypoint)
		Expect(err).NotTo(HaveOccurred())

		var labels []string
		for name, value := range config.Config.Labels {
			labels = append(labels, name+`="`+value+`"`)
		}
		Expect(strings.Fields(final[1].args)).To(ConsistOf(labels))

		expected := []instruction{final[0], {"LABEL", final[1].args}}
		for _, file := range spec.Files {
			expected = append(expected, instruction{"COPY", "--from=builder " + file.Target + " " + file.Target})
		}
		Expect(final).To(Equal(append(expected,
			instruction{"WORKDIR", config.Config.WorkingDir}, instruction{"USER", config.Config.User}, instruction{"ENTRYPOINT", string(entrypoint)},
		)))
	})

	It("builds the programs with hack/build.sh", func() {
		var runs []string
		for _, i := range builder {
			if i.name == "RUN" {
				runs = append(runs, i.args)
			}
		}

		Expect(runs).To(HaveExactElements(
			HaveSuffix(" go mod download && go -C cmd/etcd-helper mod download"),
			HaveSuffix(" hack/build.sh -o "+spec.Entrypoint[0]+" ./cmd/gardener-extension-etcd-druid"),
			HaveSuffix(" hack/build.sh -C cmd/etcd-helper -o "+spec.Files[1].Target+" ."),
		))
	})

	It("copies the go.mod of each module that a directory replaces before it downloads modules", func() {
		var module struct {
			Replace []struct{ New struct{ Path string } }
		}
		Expect(json.Unmarshal(inRoot("go", "mod", "edit", "-json"), &module)).To(Succeed())
		Expect(module.Replace).NotTo(BeEmpty())

		var copied []string
		for _, i := range builder[:slices.IndexFunc(builder, func(i instruction) bool { return i.name == "RUN" })] {
			if i.name == "COPY" {
				copied = append(copied, strings.Fields(i.args)...)
			}
		}

		for _, replace := range module.Replace {
			Expect(copied).To(ContainElements(filepath.Join(replace.New.Path, "go.mod"), filepath.Join(replace.New.Path, "go.sum")))
		}
	})

	It("uses a version of Go that is new enough for the module, since the image of Go does not download another one", func() {
		var module struct{ Go string }
		Expect(json.Unmarshal(inRoot("go", "mod", "edit", "-json"), &module)).To(Succeed())

		Expect(builder[0].args).To(MatchRegexp(` golang:\d+\.\d+\.\d+ AS builder$`), "the tag of the image must be a full version")
		version := strings.TrimSuffix(strings.Split(builder[0].args, ":")[1], " AS builder")
		Expect(goversion.Compare("go"+version, "go"+module.Go)).To(BeNumerically(">=", 0), "the module needs %s, the builder has %s", module.Go, version)
	})

	It("copies every file that the programs are compiled from, and only sources", func() {
		patterns, err := ignorefile.ReadAll(bytes.NewReader(readRoot(".dockerignore")))
		Expect(err).NotTo(HaveOccurred())
		ignored, err := patternmatcher.New(patterns)
		Expect(err).NotTo(HaveOccurred())

		isSent := func(file string) bool {
			GinkgoHelper()

			matches, err := ignored.MatchesOrParentMatches(file)
			Expect(err).NotTo(HaveOccurred())

			return !matches
		}

		files := slices.Concat(sources(".", "./cmd/gardener-extension-etcd-druid"), sources("cmd/etcd-helper", "."))
		Expect(files).To(ContainElements("cmd/gardener-extension-etcd-druid/main.go", "pkg/apis/druid/v1alpha1/register.go", "imagevector/images.yaml", "cmd/etcd-helper/main.go"))

		for _, file := range append(files, "go.mod", "go.sum", "pkg/apis/druid/go.mod", "pkg/apis/druid/go.sum", "cmd/etcd-helper/go.mod", "cmd/etcd-helper/go.sum", "VERSION", "hack/build.sh") {
			Expect(isSent(file)).To(BeTrue(), "the build context lacks %s", file)
		}

		for _, file := range []string{".git/config", "bin/program", "docs/README.md", "kubeconfig", "hack/seed/main.go", "pkg/observer/testdata/a.yaml", "pkg/observer/observer_test.go"} {
			Expect(isSent(file)).To(BeFalse(), "the build context contains %s", file)
		}
	})
})

const root = "../../../.."

// instruction is an instruction of the Dockerfile on one line.
type instruction struct{ name, args string }

func instructions() []instruction {
	GinkgoHelper()

	var all []instruction
	for line := range strings.Lines(regexp.MustCompile(`\\\n\s*`).ReplaceAllString(string(readRoot("Dockerfile")), "")) {
		if name, args, found := strings.Cut(strings.TrimSpace(line), " "); found && name != "#" {
			all = append(all, instruction{name, args})
		}
	}

	return all
}

func readRoot(name string) []byte {
	GinkgoHelper()

	content, err := os.ReadFile(filepath.Join(root, name)) // #nosec G304 -- a file of the repository
	Expect(err).NotTo(HaveOccurred())

	return content
}

func inRoot(program string, args ...string) []byte {
	GinkgoHelper()

	command := exec.CommandContext(GinkgoT().Context(), program, args...) // #nosec G204 -- go, with constant arguments
	command.Dir = root
	output, err := command.Output()
	Expect(err).NotTo(HaveOccurred())

	return output
}

// sources returns the files from which a program of a module is compiled, relative to the root of the repository.
func sources(module, program string) []string {
	GinkgoHelper()

	top, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())

	var found []string

	decoder := json.NewDecoder(bytes.NewReader(inRoot("go", "-C", module, "list", "-deps", "-json=Dir,Module,GoFiles,EmbedFiles", program)))
	for decoder.More() {
		var pkg struct {
			Dir                 string
			Module              *struct{ Path string }
			GoFiles, EmbedFiles []string
		}

		Expect(decoder.Decode(&pkg)).To(Succeed())

		if pkg.Module == nil || !strings.HasPrefix(pkg.Module.Path, "github.com/gardener/gardener-extension-etcd-druid") {
			continue
		}

		for _, file := range append(pkg.GoFiles, pkg.EmbedFiles...) {
			relative, err := filepath.Rel(top, filepath.Join(pkg.Dir, file))
			Expect(err).NotTo(HaveOccurred())

			found = append(found, filepath.ToSlash(relative))
		}
	}

	return found
}
