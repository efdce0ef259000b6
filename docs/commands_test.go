// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// runbooks are the pages whose commands stories follow.
var runbooks = []string{
	"docs/operations/losing-a-member.md",
	"docs/operations/losing-every-volume.md",
	"docs/operations/moving-stores.md",
	"docs/operations/on-demand-snapshot.md",
}

// unfollowed are sections of them that no story follows, with the reason.
var unfollowed = map[string]string{
	"The node does not come back": "it takes a node away, which other stories stand on",
}

var commandBlock = regexp.MustCompile("^```(sh|bash)$")

// sections are the headings of a page that have commands below them.
func sections(page string) []string {
	var (
		found   []string
		current string
	)

	fenced := false

	for line := range strings.Lines(read(page)) {
		switch {
		case strings.HasPrefix(line, "```"):
			if !fenced && commandBlock.MatchString(strings.TrimSpace(line)) && (len(found) == 0 || found[len(found)-1] != current) {
				found = append(found, current)
			}

			fenced = !fenced
		case !fenced && headings.MatchString(line):
			current = headings.FindStringSubmatch(line)[1]
		}
	}

	return found
}

var _ = Describe("the runbooks", func() {
	It("are followed by stories, command by command", func() {
		var stories strings.Builder

		files, err := filepath.Glob(filepath.Join(root, "test", "e2e", "*_test.go"))
		Expect(err).NotTo(HaveOccurred())

		for _, file := range files {
			content, err := os.ReadFile(file) // #nosec G304 -- a test of the repository
			Expect(err).NotTo(HaveOccurred())
			stories.Write(content)
		}

		for _, page := range runbooks {
			Expect(sections(page)).NotTo(BeEmpty(), page)

			for _, section := range sections(page) {
				if unfollowed[section] != "" {
					continue
				}

				Expect(stories.String()).To(ContainSubstring(`"`+strings.TrimPrefix(page, "docs/")+`"`), "no story names the page")
				Expect(stories.String()).To(ContainSubstring(`"`+section+`"`), "%s has commands that no story follows", page)
			}
		}
	})
})
