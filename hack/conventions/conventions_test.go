// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conventions_test

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// reuse is REUSE.toml, https://reuse.software/spec-3.3.
type reuse struct {
	Version     int `toml:"version"`
	Annotations []struct {
		Path      string `toml:"path"`
		Copyright string `toml:"SPDX-FileCopyrightText"`
		License   string `toml:"SPDX-License-Identifier"`
	} `toml:"annotations"`
}

// header matches a license in a comment. Without the anchor, it would match its own text.
var header = regexp.MustCompile(`(?m)^\W{0,4}SPDX-License-Identifier: (\S+)$`)

func read(name string) []byte {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(root, name))
	Expect(err).NotTo(HaveOccurred())

	return content
}

func readReuse() reuse {
	GinkgoHelper()
	var parsed reuse
	_, err := toml.Decode(string(read("REUSE.toml")), &parsed)
	Expect(err).NotTo(HaveOccurred())

	return parsed
}

// files are the paths of all files, without those that .gitignore and REUSE ignore.
func files() []string {
	GinkgoHelper()
	var found []string
	Expect(fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains([]string{".git", "bin", "dist", ".idea", ".vscode", "LICENSES"}, path) {
			if entry.IsDir() {
				return fs.SkipDir
			}

			return nil
		}
		if !entry.IsDir() {
			found = append(found, path)
		}

		return nil
	})).To(Succeed())
	Expect(len(found)).To(BeNumerically(">", 500))

	return found
}

// covers reports whether the pattern of an annotation matches the path: ** matches everything, also slashes.
func covers(pattern, path string) bool {
	expression := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*\*`, `.*`)

	return regexp.MustCompile("^" + expression + "$").MatchString(path)
}

var _ = Describe("The licenses", func() {
	It("cover every file", func() {
		annotations := readReuse()
		Expect(annotations.Version).To(Equal(1))
		for _, annotation := range annotations.Annotations {
			Expect(annotation.Copyright).NotTo(BeEmpty())
			Expect(annotation.License).NotTo(BeEmpty())
			Expect(annotation.Path).NotTo(MatchRegexp(`[^*]\*[^*]`), "the test does not support a single asterisk")
		}
		for _, path := range files() {
			covered := false
			for _, annotation := range annotations.Annotations {
				covered = covered || covers(annotation.Path, path)
			}
			Expect(covered).To(BeTrue(), "REUSE.toml does not cover %s", path)
		}
	})

	It("have their texts in LICENSES, and no others are there", func() {
		used := map[string]bool{}
		for _, annotation := range readReuse().Annotations {
			used[annotation.License] = true
		}
		for _, path := range files() {
			content := read(path)
			if bytes.IndexByte(content[:min(len(content), 512)], 0) >= 0 {
				continue // a binary file
			}
			for _, match := range header.FindAllSubmatch(content, -1) {
				used[string(match[1])] = true
			}
		}
		entries, err := os.ReadDir(filepath.Join(root, "LICENSES"))
		Expect(err).NotTo(HaveOccurred())
		texts := map[string]bool{}
		for _, entry := range entries {
			texts[strings.TrimSuffix(entry.Name(), ".txt")] = true
		}
		Expect(texts).To(Equal(used))
	})

	It("are in a header of each Go file and each script", func() {
		for _, path := range files() {
			if slices.Contains([]string{".go", ".sh"}, filepath.Ext(path)) && !strings.Contains(path, "testdata/") {
				Expect(header.Match(read(path))).To(BeTrue(), "%s has no line SPDX-License-Identifier", path)
			}
		}
	})

	It("of the repository is Apache 2.0", func() {
		Expect(strings.TrimSpace(string(read("LICENSE")))).To(Equal(strings.TrimSpace(string(read("LICENSES/Apache-2.0.txt")))))
	})
})

var _ = Describe("The other conventions", func() {
	It("assign each file to owners", func() {
		var rules []string
		scanner := bufio.NewScanner(bytes.NewReader(read("CODEOWNERS")))
		for scanner.Scan() {
			if line := scanner.Text(); line != "" && !strings.HasPrefix(line, "#") {
				rules = append(rules, line)
			}
		}
		Expect(rules).To(ContainElement(MatchRegexp(`^\* +@gardener/`)))
	})

	It("configure Renovate with rules for existing files", func() {
		// The file has no JSON5 comments, and the rest of its syntax is also YAML.
		config := struct {
			Extends      []string
			PackageRules []struct{ MatchFileNames []string }
		}{}
		Expect(yaml.Unmarshal(read("renovate.json5"), &config)).To(Succeed())
		Expect(config.Extends).To(ContainElement("config:recommended"))
		for _, rule := range config.PackageRules {
			for _, name := range rule.MatchFileNames {
				Expect(filepath.Join(root, strings.TrimSuffix(name, "**"))).To(BeADirectory())
			}
		}
	})

	It("describe the component and its branches", func() {
		component := struct{ Name string }{}
		Expect(yaml.Unmarshal(read(".ocm/base-component.yaml"), &component)).To(Succeed())
		Expect("module " + component.Name).To(Equal(strings.SplitN(string(read("go.mod")), "\n", 2)[0]))
		branches := struct {
			ReleaseBranchTemplate string `json:"release-branch-template"`
		}{}
		Expect(yaml.Unmarshal(read(".ocm/branch-info.yaml"), &branches)).To(Succeed())
		Expect(string(read(".github/workflows/non-release.yaml"))).To(ContainSubstring(strings.TrimSuffix(branches.ReleaseBranchTemplate, "$major.$minor")+"*"), "snapshots of release branches are built")
	})

	It("name in the templates only files that exist", func() {
		templates, err := filepath.Glob(filepath.Join(root, ".github", "*", "*.md"))
		Expect(err).NotTo(HaveOccurred())
		templates = append(templates, filepath.Join(root, ".github", "pull_request_template.md"))
		Expect(len(templates)).To(BeNumerically(">", 2))
		for _, template := range templates {
			content, err := os.ReadFile(template) // #nosec G304 -- a file of the repository
			Expect(err).NotTo(HaveOccurred())
			for _, name := range regexp.MustCompile(`[\w/-]+\.md\b`).FindAllString(string(content), -1) {
				Expect(filepath.Join(root, name)).To(BeARegularFile(), template)
			}
		}
	})

	It("have a section of the changelog for the version", func() {
		version, _, _ := strings.Cut(strings.TrimSpace(string(read("VERSION"))), "-")
		Expect(string(read("CHANGELOG.md"))).To(ContainSubstring("\n## " + version + "\n"))
	})
})
