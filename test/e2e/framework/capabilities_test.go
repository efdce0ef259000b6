// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

var _ = Describe("Capabilities", func() {
	DescribeTable("of a run", func(isSeed bool, version, sidecar string, expected framework.Capabilities) {
		Expect(framework.CapabilitiesOf(isSeed, version, sidecar)).To(Equal(expected))
	},
		Entry("the seed with etcd 3.4", true, "3.4", "", framework.Capabilities{Seed: true, Restore: true}),
		Entry("the seed with etcd 3.5 and its own sidecar", true, "3.5", "", framework.Capabilities{Seed: true}),
		Entry("the seed with etcd 3.5 and the sidecar of the user", true, "3.5", "sidecar.tar", framework.Capabilities{Seed: true, Restore: true}),
		Entry("another cluster, with published images", false, "3.5", "", framework.Capabilities{Restore: true}),
	)

	It("do not exist for another version of etcd", func() {
		_, err := framework.CapabilitiesOf(true, "3.6", "")
		Expect(err).To(MatchError(`ETCD_VERSION is "3.6"; set it to 3.4 or 3.5`))
	})

	DescribeTable("decide which specs are skipped", func(available framework.Capabilities, labels []string, expected string) {
		Expect(available.Missing(labels)).To(Equal(expected))
	},
		Entry("none without a declaration", framework.Capabilities{}, []string{"long"}, ""),
		Entry("a spec that needs the seed, on another cluster", framework.Capabilities{Restore: true}, []string(framework.NeedsSeed("stops a node")), "needs the local seed: the spec stops a node"),
		Entry("not a spec that needs the seed, on the seed", framework.Capabilities{Seed: true}, []string(framework.NeedsSeed("stops a node")), ""),
		Entry("a spec that restores, without a sidecar for etcd 3.5", framework.Capabilities{Seed: true}, []string(framework.NeedsRestore("restores a snapshot")),
			"needs SIDECAR_NEXT, since the sidecar of the local seed cannot open a database of etcd 3.5: the spec restores a snapshot"),
		Entry("not a spec that restores, with a sidecar for it", framework.Capabilities{Restore: true}, []string(framework.NeedsRestore("restores a snapshot")), ""),
	)
})

var _ = DescribeTable("The image vector", func(name, expected string) {
	Expect(framework.ImageIn("images:\n- name: a\n  repository: example.com/a\n  tag: v1\n- name: b\n  ref: example.com/b@sha256:01\n", name)).To(Equal(expected))
},
	Entry("contains a tag", "a", "example.com/a:v1"),
	Entry("contains a reference", "b", "example.com/b@sha256:01"),
	Entry("does not contain an image", "c", ""),
)
