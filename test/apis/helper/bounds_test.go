// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

func addresses(count int) []string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("10.0.%d.%d", i/256, i%256))
	}

	return all
}

var _ = Describe("The bounds of a spec", func() {
	urls := func(count int) []string {
		var all []string
		for i := range count {
			all = append(all, fmt.Sprintf("http://a%d", i))
		}

		return all
	}
	bootstrap := func(e *druidv1alpha1.Etcd) *druidv1alpha1.BootstrapWithExistingCluster {
		e.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{}

		return e.Spec.Etcd.BootstrapWithExistingCluster
	}

	// A CustomResourceDefinition of another origin may lack them.
	DescribeTable("are checked whatever the schema lets pass, and what is beyond is not repeated",
		func(path string, option override) {
			canonical, errs := helper.Canonical(fixture.Etcd(option))
			Expect(errs).To(HaveLen(1))
			Expect(errs[0].Field).To(Equal(path))
			Expect(len(errs[0].Error())).To(BeNumerically("<", 400))
			Expect(canonical.Spec.Replicas).To(BeNumerically("<=", 32))
			Expect(len(canonical.Spec.ExternallyManagedMemberAddresses)).To(BeNumerically("<=", 32))
		},
		Entry("members", "spec.replicas", func(e *druidv1alpha1.Etcd) { e.Spec.Replicas = 2_000_000_000 }),
		Entry("addresses", "spec.externallyManagedMemberAddresses", func(e *druidv1alpha1.Etcd) { e.Spec.ExternallyManagedMemberAddresses = addresses(10_000) }),
		Entry("a long address", "spec.externallyManagedMemberAddresses[0]", func(e *druidv1alpha1.Etcd) {
			e.Spec.ExternallyManagedMemberAddresses = []string{strings.Repeat("a", 1<<20)}
		}),
		Entry("further peer URLs", "spec.etcd.additionalAdvertisePeerURLs", func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.AdditionalAdvertisePeerURLs = make([]druidv1alpha1.MemberPeerURLs, 11)
		}),
		Entry("peer URLs of one member", "spec.etcd.additionalAdvertisePeerURLs[0].urls", func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{URLs: urls(6)}}
		}),
		Entry("members of the cluster to join", "spec.etcd.bootstrapWithExistingCluster.members", func(e *druidv1alpha1.Etcd) {
			bootstrap(e).Members = make([]druidv1alpha1.BootstrapExistingMember, 11)
		}),
		Entry("peer URLs of a member of the cluster to join", "spec.etcd.bootstrapWithExistingCluster.members[0].peerUrls", func(e *druidv1alpha1.Etcd) {
			bootstrap(e).Members = []druidv1alpha1.BootstrapExistingMember{{PeerURLs: urls(6)}}
		}),
		Entry("client endpoints of the cluster to join", "spec.etcd.bootstrapWithExistingCluster.clientEndpoints", func(e *druidv1alpha1.Etcd) { bootstrap(e).ClientEndpoints = urls(1000) }),
		Entry("a long client endpoint", "spec.etcd.bootstrapWithExistingCluster.clientEndpoints[0]", func(e *druidv1alpha1.Etcd) {
			bootstrap(e).ClientEndpoints = []string{"http://" + strings.Repeat("a", 1<<20)}
		}),
	)

	It("leave room for what is used", func() {
		_, errs := helper.Canonical(fixture.Etcd(fixture.WithReplicas(32), func(e *druidv1alpha1.Etcd) { e.Spec.ExternallyManagedMemberAddresses = addresses(32) }))
		Expect(errs).To(BeEmpty())
	})
})
