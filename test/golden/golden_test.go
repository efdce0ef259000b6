// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package golden_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/test/golden"
)

var _ = Describe("Golden files", func() {
	const base = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n"

	var folder string

	BeforeEach(func() {
		folder = GinkgoT().TempDir()
		Expect(golden.Write(golden.Path(folder, "base"), "", base)).To(Succeed())
	})

	DescribeTable("returns the full text of a case that is stored as a diff", func(text string) {
		path := golden.Path(folder, "case")
		Expect(golden.Write(path, "base", text)).To(Succeed())
		Expect(path).NotTo(BeAnExistingFile())
		Expect(golden.Read(path)).To(Equal(text))
		Expect(golden.Paths(folder)).To(Equal([]string{golden.Path(folder, "base"), path}))
	},
		Entry("equal to the base", base),
		Entry("with one changed line", strings.Replace(base, "e\n", "E\n", 1)),
		Entry("with a changed first and last line", "A\n"+base[2:len(base)-2]+"K\n"),
		Entry("with added lines at both ends", "0\n"+base+"l\n"),
		Entry("with removed lines at both ends", base[2:len(base)-2]),
		Entry("without a common line", "x\ny\n"),
		Entry("with lines that begin like the header of a diff", "--- a\n+++ b\n@@ -1,1 +1,1 @@\n\n"+base),
	)

	It("stores a readable diff with the names of both files", func() {
		Expect(golden.Write(golden.Path(folder, "case"), "base", strings.Replace(base, "e\n", "E\n", 1))).To(Succeed())
		stored, err := os.ReadFile(golden.Path(folder, "case") + ".diff")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(stored)).To(Equal("--- base.golden.yaml\n+++ case.golden.yaml\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n"))
	})

	It("replaces the file of a case when its format changes", func() {
		path := golden.Path(folder, "case")
		Expect(golden.Write(path, "", base)).To(Succeed())
		Expect(golden.Write(path, "base", base)).To(Succeed())
		Expect(filepath.Glob(path + "*")).To(ConsistOf(path + ".diff"))
		Expect(golden.Write(path, "", base)).To(Succeed())
		Expect(filepath.Glob(path + "*")).To(ConsistOf(path))
	})

	It("fails if the base no longer has a line of the diff", func() {
		path := golden.Path(folder, "case")
		Expect(golden.Write(path, "base", strings.Replace(base, "e\n", "E\n", 1))).To(Succeed())
		Expect(golden.Write(golden.Path(folder, "base"), "", strings.Replace(base, "d\n", "D\n", 1))).To(Succeed())
		_, err := golden.Read(path)
		Expect(err).To(MatchError(And(ContainSubstring("case.golden.yaml.diff"), ContainSubstring("does not match"))))
	})

	It("fails for a case or base without a file, for a text without a trailing newline, and for an empty folder", func() {
		path := golden.Path(folder, "case")
		_, err := golden.Read(path)
		Expect(err).To(MatchError(os.ErrNotExist))
		Expect(golden.Write(path, "missing", base)).To(MatchError(os.ErrNotExist))
		Expect(golden.Write(path, "base", "a")).To(MatchError(ContainSubstring("does not end with a newline")))
		_, err = golden.Paths(GinkgoT().TempDir())
		Expect(err).To(MatchError(ContainSubstring("no golden file")))
	})
})
