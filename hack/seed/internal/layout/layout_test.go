// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

var _ = Describe("Find", func() {
	It("finds the checkout from the folder of the tool", func() {
		dir, err := os.Getwd()
		Expect(err).NotTo(HaveOccurred())

		l, err := layout.Find(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Join(l.Root, "hack", "seed", "main.go")).To(BeAnExistingFile())
	})

	It("says how to call it elsewhere", func() {
		_, err := layout.Find(GinkgoT().TempDir())
		Expect(err).To(MatchError(ContainSubstring("go run -C hack/seed .")))
	})
})

var _ = Describe("Check", func() {
	It("accepts a usual home", func() {
		Expect(layout.Layout{Run: "/home/user/.cache/gardener-extension-etcd-druid/seed"}.Check()).To(Succeed())
	})

	It("refuses a folder that leaves no room for sockets, and says what to do", func() {
		Expect(layout.Layout{Run: "/" + strings.Repeat("x", 80)}.Check()).To(MatchError(ContainSubstring("set XDG_CACHE_HOME")))
	})
})

var _ = Describe("Node", func() {
	It("derives all names and addresses from the number", func() {
		n := layout.Node(3)
		Expect([]string{n.Name(), n.IP(), n.PodCIDR(), n.Namespace(), n.Link(), n.Cgroup()}).To(HaveExactElements(
			"n3", "10.250.0.13", "10.244.3.0/24", "druid-seed-n3", "druidseed-n3", "druid-seed/n3"))
	})

	It("keeps the names of links within the kernel's 15 characters", func() {
		for _, n := range layout.Nodes(layout.MaxNodes) {
			Expect(len(n.Link())).To(BeNumerically("<=", 15))
		}
	})

	DescribeTable("is parsed by name", func(name string, matcher OmegaMatcher) {
		n, err := layout.ParseNode(name)
		if err != nil {
			n = 0
		}

		Expect(n).To(matcher)
	},
		Entry("the second", "n2", Equal(layout.Node(2))),
		Entry("not a sixth", "n6", BeZero()),
		Entry("not a number alone", "2", BeZero()),
	)
})
