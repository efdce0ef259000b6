// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"path"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const behaviorsPage = "docs/development/sidecar-behavior.md"

var (
	testColumn = regexp.MustCompile(`(?m)^\| Behavior \| Test \|.*\n\|[-|]+\n((?:\|.*\n)+)`)
	testNames  = regexp.MustCompile("\\]\\((\\S+_test\\.go)\\): ((?:`[^`]+`(?:, )?)+)")
)

var _ = Describe("the page about the behavior of the sidecar", func() {
	It("names a test for each behavior, and only tests that exist", func() {
		tables := testColumn.FindAllStringSubmatch(read(behaviorsPage), -1)
		Expect(tables).To(HaveLen(2))

		for _, table := range tables {
			for line := range strings.Lines(table[1]) {
				files := testNames.FindAllStringSubmatch(strings.SplitN(line, " | ", 3)[1], -1)
				Expect(files).NotTo(BeEmpty(), "no test: %s", line)

				for _, file := range files {
					content := read(path.Join(path.Dir(behaviorsPage), file[1]))

					for _, name := range code.FindAllString(file[2], -1) {
						Expect(strings.Contains(content, strings.Trim(name, "`"))).To(BeTrue(), "%s does not contain the test %s", file[1], name)
					}
				}
			}
		}
	})
})
