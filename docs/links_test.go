// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const root = ".."

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fences   = regexp.MustCompile("(?ms)^```.*?^```$")
	code     = regexp.MustCompile("`[^`\n]*`")
	headings = regexp.MustCompile(`(?m)^#+ (.+)$`)
	targets  = regexp.MustCompile("(?:`|\\n)make ([a-z0-9-]+(?: [a-z0-9-]+)*)")
)

// pages are the Markdown files of the repository, relative to its root.
func pages() []string {
	found := []string{"README.md", "CONTRIBUTING.md", "hack/seed/README.md"}

	Expect(fs.WalkDir(os.DirFS(root), "docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			found = append(found, name)
		}

		return err
	})).To(Succeed())

	return found
}

func read(name string) string {
	GinkgoHelper()

	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	Expect(err).NotTo(HaveOccurred())

	return string(data)
}

// relativeLinks are the links of a page to other files, relative to the root, with their anchors.
func relativeLinks(page string) []string {
	var found []string

	for _, match := range links.FindAllStringSubmatch(code.ReplaceAllString(fences.ReplaceAllString(read(page), ""), ""), -1) {
		if target := match[1]; strings.HasPrefix(target, "#") {
			found = append(found, page+target)
		} else if !strings.Contains(target, "://") {
			found = append(found, path.Join(path.Dir(page), target))
		}
	}

	return found
}

// anchors are the names by which the headings of a page can be linked to.
func anchors(page string) []string {
	var found []string

	for _, match := range headings.FindAllStringSubmatch(fences.ReplaceAllString(read(page), ""), -1) {
		name := strings.ToLower(match[1])
		name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
		found = append(found, strings.ReplaceAll(name, " ", "-"))
	}

	return found
}

var _ = Describe("the pages", func() {
	It("link only to files that exist, and to headings that they have", func() {
		for _, page := range pages() {
			for _, link := range relativeLinks(page) {
				file, anchor, hasAnchor := strings.Cut(link, "#")

				Expect(filepath.Join(root, file)).To(Or(BeAnExistingFile(), BeADirectory()), "linked from %s", page)

				if hasAnchor && strings.HasSuffix(file, ".md") {
					Expect(anchors(file)).To(ContainElement(anchor), "%s links to a heading that %s does not have", page, file)
				}
			}
		}
	})

	It("are all linked from the index", func() {
		index := relativeLinks("docs/README.md")

		for _, page := range pages() {
			if strings.HasPrefix(page, "docs/") && page != "docs/README.md" {
				Expect(index).To(ContainElement(page))
			}
		}
	})

	It("name only targets that the Makefile has", func() {
		makefile := read("Makefile")

		for _, page := range pages() {
			for _, match := range targets.FindAllStringSubmatch(read(page), -1) {
				for target := range strings.FieldsSeq(match[1]) {
					Expect(makefile).To(MatchRegexp(`(?m)^`+regexp.QuoteMeta(target)+`:`), "%s names `make %s`", page, target)
				}
			}
		}
	})
})

var _ = Describe("the alerts of the chart", func() {
	It("link each to its own heading of a page", func() {
		const repository = "https://github.com/gardener/gardener-extension-etcd-druid/blob/main/"

		alerts := read("charts/gardener-extension-etcd-druid/files/alerts.yaml")
		names := regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(alerts, -1)
		Expect(names).NotTo(BeEmpty())

		for _, name := range names {
			const page = "docs/operations/alerts.md"
			Expect(alerts).To(ContainSubstring("runbook_url: " + repository + page + "#" + strings.ToLower(name[1]) + "\n"))
			Expect(anchors(page)).To(ContainElement(strings.ToLower(name[1])), "the page says nothing about the alert")
		}

		Expect(strings.Count(alerts, "runbook_url: ")).To(Equal(len(names)))
	})
})

var _ = Describe("the README", func() {
	It("has less than 60 lines", func() {
		Expect(strings.Count(read("README.md"), "\n")).To(BeNumerically("<", 60))
	})

	It("names the two commands that do everything", func() {
		Expect(read("README.md")).To(And(ContainSubstring("\nmake up "), ContainSubstring("\nmake test ")))
	})
})

var _ = Describe("the Makefile", func() {
	It("runs nothing while it is read", func() {
		Expect(read("Makefile")).NotTo(ContainSubstring("$(shell"), "use a recipe")
		Expect(read("Makefile")).NotTo(MatchRegexp(`(?m)^\w+ *!=`), "use a recipe")
	})

	It("explains every target in its help", func() {
		makefile := read("Makefile")

		var phony, explained []string
		for _, match := range regexp.MustCompile(`(?m)^\.PHONY: (.+)$`).FindAllStringSubmatch(makefile, -1) {
			phony = append(phony, match[1])
		}

		for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## .+$`).FindAllStringSubmatch(makefile, -1) {
			explained = append(explained, match[1])
		}

		Expect(explained).To(Equal(phony))
		Expect(slices.Contains(explained, "help")).To(BeTrue())
	})
})
