// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// These tests limit gaps to seconds. They share a cluster, because its creation takes as long as most of them.
var _ = Describe("A cluster of three members", quiet, Ordered, SpecPriority(5), func() {
	var (
		ns   *framework.TestNamespace
		etcd *druidv1alpha1.Etcd
	)

	BeforeAll(func(ctx SpecContext) { ns = seed.NewNamespace(ctx, "three") })

	AfterEach(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			ns.Report(ctx)
		}
	})

	It("is created", gate, func(ctx SpecContext) { etcd = createThreeMembers(ctx, ns) }, SpecTimeout(specTimeout))

	It("rolls out a change to one member after another, the leader last, and stops at an image that does not exist", gate, func(ctx SpecContext) {
		rollOutChanges(ctx, ns, etcd)
	}, SpecTimeout(specTimeout))

	It("is described by the plugin kubectl etcd, the commands of the pages for users, and the metrics", gate, func(ctx SpecContext) {
		usePlugin(ctx, ns, etcd)
		followPages(ctx, ns, etcd)
	}, SpecTimeout(specTimeout))

	It("returns to the version of etcd", func(ctx SpecContext) { returnToVersion(ctx, ns, etcd) }, SpecTimeout(specTimeout))

	It("scales up to five members without a restart", gate, func(ctx SpecContext) { scaleUpToFive(ctx, ns, etcd) }, SpecTimeout(specTimeout))

	It("defragments one member after another, the leader last, and loses no key", gate, func(ctx SpecContext) {
		defragment(ctx, ns, etcd)
		Expect(voters(etcd)).To(Equal(5))
	}, SpecTimeout(specTimeout))

	It("scales in to three members and to one without a restart of the others", gate, func(ctx SpecContext) {
		scaleIn(ctx, ns, etcd, 3)
		scaleIn(ctx, ns, etcd, 1)
	}, SpecTimeout(specTimeout))
})
