// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// unfollowed are the sections with commands that no end-to-end test follows, `page#section`, with the reason.
var unfollowed = map[string]string{}

// others are the languages of blocks that are not commands.
var others = []string{"go", "yaml", "json", "promql", "text"}

// block is a fenced block of a page.
type block struct {
	section, language, text string
}

func (b block) isTyped() bool { return b.language == "sh" || b.language == "bash" }

var fenced = regexp.MustCompile("(?ms)^(?:#+ ([^\n]+)|```([a-z]*)\n(.*?)^```)$")

// blocks are the fenced blocks of a page, with the headings above them.
func blocks(page string) []block {
	var (
		found   []block
		section string
	)

	for _, match := range fenced.FindAllStringSubmatch(read(page), -1) {
		if match[1] != "" {
			section = match[1]
		} else {
			found = append(found, block{section, match[2], match[3]})
		}
	}

	return found
}

// handbooks are the pages whose commands are executed.
func handbooks() []string {
	GinkgoHelper()

	found := slices.DeleteFunc(pages(), func(page string) bool {
		return !strings.HasPrefix(page, "docs/usage/") && !strings.HasPrefix(page, "docs/operations/")
	})
	Expect(found).NotTo(BeEmpty())

	return found
}

var _ = Describe("the commands in the pages for users and operators", func() {
	It("are followed by end-to-end tests, section by section", func() {
		followed := followed()

		for _, page := range handbooks() {
			for _, block := range blocks(page) {
				if block.isTyped() && unfollowed[page+"#"+block.section] == "" {
					Expect(followed).To(HaveKey(page+"#"+block.section), "no end-to-end test follows this section")
				}
			}
		}
	})

	It("stand in blocks that say so", func() {
		for _, page := range handbooks() {
			for _, block := range blocks(page) {
				Expect(block.isTyped() || slices.Contains(others, block.language)).To(BeTrue(), "%s, %s: a block is %q, and should be sh or one of %v", page, block.section, block.language, others)

				if !block.isTyped() {
					Expect(block.text).NotTo(MatchRegexp(`(?m)^ *(kubectl|helm|etcdctl|make) `), "%s, %s: commands in a block that no test follows", page, block.section)
				}
			}
		}
	})

	It("are left out by name only where there are any", func() {
		for key := range unfollowed {
			page, section, _ := strings.Cut(key, "#")
			Expect(slices.ContainsFunc(blocks(page), func(b block) bool { return b.isTyped() && b.section == section })).To(BeTrue(), key)
		}
	})
})
