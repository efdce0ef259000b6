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
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
)

// Nobody builds the Dockerfile where this is tested: no image is to be had there. So it is read.
var _ = Describe("the Dockerfile", func() {
	var (
		builder, final instructions.Stage
		spec           image.Spec
	)

	BeforeEach(func() {
		file, err := parser.Parse(bytes.NewReader(readRoot("Dockerfile")))
		Expect(err).NotTo(HaveOccurred())
		stages, _, err := instructions.Parse(file.AST, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(stages).To(HaveLen(2))

		builder, final = stages[0], stages[1]

		program := filepath.Join(GinkgoT().TempDir(), "program")
		Expect(os.WriteFile(program, []byte("content"), 0o600)).To(Succeed())
		spec, err = image.Operator(program)
		Expect(err).NotTo(HaveOccurred())
	})

	It("gives the image the files, labels, user, folder and entrypoint that the seed gives it, and nothing else", func() {
		archive := filepath.Join(GinkgoT().TempDir(), "image.tar")
		Expect(image.Pack(spec, archive)).To(Succeed())
		packed, err := tarball.ImageFromPath(archive, nil)
		Expect(err).NotTo(HaveOccurred())
		config, err := packed.ConfigFile()
		Expect(err).NotTo(HaveOccurred())

		var entrypoint, files []string

		labels := map[string]string{}
		user, folder := "", ""

		for _, command := range final.Commands {
			switch c := command.(type) {
			case *instructions.LabelCommand:
				for _, label := range c.Labels {
					labels[label.Key] = strings.Trim(label.Value, `"`)
				}
			case *instructions.CopyCommand:
				Expect(c.From).To(Equal(builder.Name))
				Expect(c.SourcePaths).To(ConsistOf(c.DestPath))
				files = append(files, c.DestPath)
			case *instructions.WorkdirCommand:
				folder = c.Path
			case *instructions.UserCommand:
				user = c.User
			case *instructions.EntrypointCommand:
				Expect(c.PrependShell).To(BeFalse(), "the base has no shell")
				entrypoint = c.CmdLine
			default:
				Fail("the seed does nothing like " + command.Name())
			}
		}

		Expect(entrypoint).To(Equal(config.Config.Entrypoint))
		Expect(user).To(Equal(config.Config.User))
		Expect(folder).To(Equal(config.Config.WorkingDir))
		Expect(labels).To(Equal(config.Config.Labels))
		Expect(files).To(ConsistOf(spec.Files[0].Target))
	})

	It("builds the program in the one way in which all build it", func() {
		var runs []string

		for _, command := range builder.Commands {
			if run, ok := command.(*instructions.RunCommand); ok {
				runs = append(runs, strings.Join(run.CmdLine, " "))
			}
		}

		Expect(runs).To(HaveLen(2))
		Expect(runs[0]).To(Equal("go mod download"))
		Expect(runs[1]).To(HaveSuffix(" hack/build.sh -o " + spec.Entrypoint[0] + " ./cmd/gardener-extension-etcd-druid"))
	})

	It("takes a Go that is new enough for the module, since the image of Go fetches no other", func() {
		var module struct{ Go string }
		Expect(json.Unmarshal(inRoot("go", "mod", "edit", "-json"), &module)).To(Succeed())

		name, version, _ := strings.Cut(builder.BaseName, ":")
		Expect(name).To(Equal("golang"))
		Expect(version).To(MatchRegexp(`^\d+\.\d+\.\d+$`), "the image is to be the same tomorrow")
		Expect(goversion.Compare("go"+version, "go"+module.Go)).To(BeNumerically(">=", 0), "the module wants %s, the builder has %s", module.Go, version)
	})

	It("gets every file that the operator is compiled from, and none besides the sources", func() {
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

		for _, file := range append(sources(), "go.mod", "go.sum", "VERSION", "hack/build.sh") {
			Expect(isSent(file)).To(BeTrue(), "the builder does not get %s", file)
		}

		for _, file := range []string{".git/config", "bin/program", "docs/README.md", "kubeconfig", "hack/seed/main.go", "pkg/observer/testdata/a.yaml", "pkg/observer/observer_test.go"} {
			Expect(isSent(file)).To(BeFalse(), "the builder gets %s", file)
		}
	})
})

const root = "../../../.."

func readRoot(name string) []byte {
	GinkgoHelper()

	content, err := os.ReadFile(filepath.Join(root, name)) // #nosec G304 -- a file of the repository
	Expect(err).NotTo(HaveOccurred())

	return content
}

func inRoot(program string, args ...string) []byte {
	GinkgoHelper()

	command := exec.CommandContext(GinkgoT().Context(), program, args...) // #nosec G204 -- go, with what stands here
	command.Dir = root
	output, err := command.Output()
	Expect(err).NotTo(HaveOccurred())

	return output
}

// sources are the files of the repository that the operator is compiled from, relative to its root.
func sources() []string {
	GinkgoHelper()

	top, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())

	var found []string

	decoder := json.NewDecoder(bytes.NewReader(inRoot("go", "list", "-deps", "-json=Dir,Module,GoFiles,EmbedFiles", "./cmd/gardener-extension-etcd-druid")))
	for decoder.More() {
		var pkg struct {
			Dir                 string
			Module              *struct{ Main bool }
			GoFiles, EmbedFiles []string
		}

		Expect(decoder.Decode(&pkg)).To(Succeed())

		if pkg.Module == nil || !pkg.Module.Main {
			continue
		}

		for _, file := range append(pkg.GoFiles, pkg.EmbedFiles...) {
			relative, err := filepath.Rel(top, filepath.Join(pkg.Dir, file))
			Expect(err).NotTo(HaveOccurred())

			found = append(found, filepath.ToSlash(relative))
		}
	}

	Expect(found).To(ContainElements("cmd/gardener-extension-etcd-druid/main.go", "imagevector/images.yaml"))

	return found
}
