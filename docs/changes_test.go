// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const changesPage = "docs/development/typical-changes.md"

var (
	sections      = regexp.MustCompile(`(?m)^## `)
	identifiers   = regexp.MustCompile("(?m)^Identifiers: (`.+`)$")
	rows          = regexp.MustCompile(`(?m)^\| \[[^\]]+\]\(([^)]+)\) \|[^|]*\| ([^|]+) \| ([^|]+) \|$`)
	goldens       = regexp.MustCompile(`(^|/)testdata/`)
	pictures      = regexp.MustCompile(`^docs/operations/pictures/`)
	fromGenerator = regexp.MustCompile(`/zz_generated\.|/crds/|^docs/api-reference/`)
	checks        = regexp.MustCompile("^`(compiler|check|check-generate|test-unit|none)`(, `(compiler|check|check-generate|test-unit)`)*$")
)

// change is a section of the page: an example, and the files that contain its identifiers.
type change struct {
	title       string
	identifiers []string
	rows        []changedFile
}

// changedFile is a row of a table. Its name is relative to the root of the repository.
type changedFile struct {
	name, writer, check string
}

// changes are the sections of the page.
func changes() []change {
	GinkgoHelper()

	var found []change

	for _, section := range sections.Split(read(changesPage), -1)[1:] {
		title, text, _ := strings.Cut(section, "\n")
		match := identifiers.FindStringSubmatch(text)
		Expect(match).NotTo(BeNil(), "section %q names no identifiers", title)

		entry := change{title: title, identifiers: strings.Split(strings.ReplaceAll(match[1], "`", ""), ", ")}
		for _, row := range rows.FindAllStringSubmatch(text, -1) {
			entry.rows = append(entry.rows, changedFile{path.Join(path.Dir(changesPage), row[1]), row[2], row[3]})
		}

		Expect(entry.rows).To(HaveLen(strings.Count(text, "\n| ")-1), "section %q has a row of another form", title)
		found = append(found, entry)
	}

	return found
}

// sources are the files of the repository, also new ones, without golden files, pictures and the pages for developers.
func sources() []string {
	GinkgoHelper()

	output, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	Expect(err).NotTo(HaveOccurred())

	var found []string

	for name := range strings.SplitSeq(strings.TrimSuffix(string(output), "\x00"), "\x00") {
		if !goldens.MatchString(name) && !pictures.MatchString(name) && !strings.HasPrefix(name, "docs/development/") {
			found = append(found, name)
		}
	}

	return found
}

// filesWith are the sources that contain one of the identifiers as a word.
func filesWith(words []string) []string {
	GinkgoHelper()

	pattern := regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)\b`)

	var found []string

	for _, name := range sources() {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // deleted, and not committed
		}

		Expect(err).NotTo(HaveOccurred())

		if pattern.Match(data) {
			found = append(found, name)
		}
	}

	return found
}

var _ = Describe("the page about typical changes", func() {
	It("has a field, a condition and a step", func() { Expect(changes()).To(HaveLen(3)) })

	It("lists all files of each example, and no others", func() {
		for _, change := range changes() {
			var listed []string
			for _, row := range change.rows {
				listed = append(listed, row.name)
			}

			Expect(listed).To(ConsistOf(filesWith(change.identifiers)), "%s, section %q: list exactly the files that contain %v", changesPage, change.title, change.identifiers)
		}
	})

	It("states how each file is written and which check reports it", func() {
		for _, change := range changes() {
			for _, row := range change.rows {
				writer := "hand"
				if fromGenerator.MatchString(row.name) {
					writer = "`make generate`"
				}

				Expect(row.writer).To(Equal(writer), "%s, section %q", row.name, change.title)
				Expect(row.check).To(MatchRegexp(checks.String()), "%s, section %q", row.name, change.title)
			}
		}
	})
})
