// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

var _ = Describe("Find", func() {
	It("finds the checkout from the directory of the tool", func() {
		dir, err := os.Getwd()
		Expect(err).NotTo(HaveOccurred())

		l, err := layout.Find(dir, layout.Seed)
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Join(l.Root, "hack", "seed", "main.go")).To(BeAnExistingFile())
	})

	It("returns an error with the remedy outside a checkout", func() {
		_, err := layout.Find(GinkgoT().TempDir(), layout.Seed)
		Expect(err).To(MatchError(ContainSubstring("go run -C hack/seed .")))
	})
})

var _ = Describe("Check", func() {
	It("accepts a usual home directory", func() {
		Expect(layout.Layout{Run: "/home/user/.cache/gardener-extension-etcd-druid/seed"}.Check()).To(Succeed())
	})

	It("returns an error with the remedy for a directory with a long path", func() {
		Expect(layout.Layout{Run: "/" + strings.Repeat("x", 80)}.Check()).To(MatchError(ContainSubstring("set XDG_CACHE_HOME")))
	})
})

var _ = Describe("Node", func() {
	It("derives all names and addresses from the number", func() {
		n := layout.Seed.Node(3)
		Expect([]string{n.Name(), n.IP(), n.PodCIDR(), n.Namespace(), n.Link(), n.Cgroup()}).To(HaveExactElements(
			"n3", "10.250.0.13", "10.244.3.0/24", "druid-seed-n3", "druidseed-n3", "druid-seed/n3"))

		n = layout.Bare.Node(1)
		Expect([]string{n.Name(), n.IP(), n.PodCIDR(), n.Namespace(), n.Link(), n.Cgroup()}).To(HaveExactElements(
			"n1", "10.250.1.11", "10.245.1.0/24", "druid-bare-n1", "druidbare-n1", "druid-bare/n1"))
	})

	It("has interface names of at most 15 characters, the limit of the kernel", func() {
		for _, cluster := range append(layout.Seed.Others(), layout.Seed) {
			for _, n := range cluster.Nodes(layout.MaxNodes) {
				Expect(len(n.Link())).To(BeNumerically("<=", 15))
			}
		}
	})

	DescribeTable("is parsed from its name", func(name string, matcher OmegaMatcher) {
		n, _ := layout.Seed.ParseNode(name)
		Expect(n).To(matcher)
	},
		Entry("the name of the second node", "n2", Equal(layout.Seed.Node(2))),
		Entry("a number that is too large", "n6", BeZero()),
		Entry("a number without the prefix", "2", BeZero()),
	)
})

var _ = Describe("Cluster", func() {
	It("has its own names, networks and ports", func() {
		of := func(c layout.Cluster) []any {
			return []any{
				c.Name(), c.Bridge(), c.Cgroup(), c.Lock(), c.Owner(), c.HostIP(), c.NodeCIDR(), c.PodCIDR(), c.ServiceCIDR(), c.ServiceIP(), c.DNSIP(),
				c.APIPort(), c.EtcdClientPort(), c.EtcdPeerPort(), c.ControllerManagerPort(), c.SchedulerPort(), c.ResourceManagerHealthPort(),
				c.ResourceManagerMetricsPort(), c.ResourceManagerWebhookPort(), c.GardenerAPIPort(), c.GardenerControllerManagerPort(), c.GardenerControllerManagerHealth(),
			}
		}

		Expect(of(layout.Seed)).To(HaveExactElements(
			"seed", "druidseed0", "druid-seed", "/run/druid-seed/lock", "/run/druid-seed/owner", "10.250.0.1", "10.250.0.0/24", "10.244.0.0/16", "10.96.0.0/16", "10.96.0.1", "10.96.0.10",
			6443, 12379, 12380, 10257, 10259, 18081, 18082, 9449, 8443, 2718, 2719,
		))

		all := of(layout.Seed)
		for _, other := range layout.Seed.Others() {
			all = append(all, of(other)...)
		}

		for i, value := range all {
			Expect(slices.Index(all, value)).To(Equal(i), "%v occurs twice", value)
		}
	})

	It("is parsed from its name", func() {
		for _, cluster := range append(layout.Seed.Others(), layout.Bench.Others()...) {
			parsed, found := layout.ParseCluster(cluster.Name())
			Expect(found).To(BeTrue())
			Expect(parsed).To(Equal(cluster))
		}

		_, found := layout.ParseCluster("other")
		Expect(found).To(BeFalse())
	})

	It("has its own directory, and shares programs and images", func() {
		seed := layout.Layout{Root: "/root", Cache: "/cache", Run: "/cache/seed"}
		Expect(seed.Of(layout.Bare)).To(Equal(layout.Layout{Cluster: layout.Bare, Root: "/root", Cache: "/cache", Run: "/cache/bare"}))
		Expect(seed.Of(layout.Bare).Images()).To(Equal(seed.Images()))
	})
})
