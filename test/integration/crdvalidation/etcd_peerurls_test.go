// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Additional peer URLs", func() {
	DescribeTable("are rejected",
		func(message string, options ...override) {
			Expect(c.Create(ctx, etcd(options...))).To(beRejected(message))
		},
		Entry("for a member of another cluster", "must be [<spec.memberNamePrefix>-]", peerURLs("other-0", "http://a")),
		Entry("for a member without the member name prefix", "must be [<spec.memberNamePrefix>-]", peerURLs("test-0", "http://a"), prefix),
		Entry("for a member that does not exist", "must be below spec.replicas", peerURLs("test-1", "http://a")),
		Entry("with http although peer TLS is enabled", "must begin with https://", peerURLs("test-0", "http://a"), fixture.WithPeerTLS()),
		Entry("with https without peer TLS", "must begin with https://", peerURLs("test-0", "https://a")),
		Entry("with https although TLS is disabled", "must begin with https://", peerURLs("test-0", "https://a"), fixture.WithPeerTLS(),
			func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.EnableTLS = new(false) }),
		Entry("that are not URLs", "must be a URL", peerURLs("test-0", "http://a b")),
		Entry("that appear twice", "Duplicate value", peerURLs("test-0", "http://a", "http://a")),
		Entry("that are too many", "must have at most 5 items", peerURLs("test-0", "http://a", "http://b", "http://c", "http://d", "http://e", "http://f")),
		Entry("that are too long", "Too long", peerURLs("test-0", "http://"+strings.Repeat("a", 2048))),
	)

	It("are kept during hibernation", func() {
		object := create(fixture.WithReplicas(3), peerURLs("test-2", "http://a:2380"))
		for _, size := range []int32{0, 3} {
			Expect(change(object, fixture.WithReplicas(size))).To(Succeed())
		}
	})

	It("are accepted for a member with the member name prefix", func() {
		Expect(c.Create(ctx, etcd(peerURLs("eu-test-0", "http://a"), prefix))).To(Succeed())
	})
})

var _ = Describe("An existing cluster to join", func() {
	It("can be set only on creation, and can be removed", func() {
		Expect(change(create(), joining("source-0"))).To(beRejected("can only be set on creation"))

		object := create(fixture.WithName("joining"), joining("source-0"))
		Expect(change(object, func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.BootstrapWithExistingCluster = nil })).To(Succeed())
	})

	It("is immutable while the members join", func() {
		object := create(joining("source-0"))
		Expect(change(object, joining("source-1"))).To(Succeed())

		before := object.DeepCopy()
		object.Status.Conditions = []druidv1alpha1.Condition{{
			Type: "BootstrappedWithExistingCluster", Status: "False", Reason: "BootstrapInProgress",
			LastTransitionTime: metav1.Now(), LastUpdateTime: metav1.Now(),
		}}
		Expect(c.Status().Patch(ctx, object, client.MergeFrom(before))).To(Succeed())
		Expect(change(object.DeepCopy(), joining("source-2"))).To(beRejected("must not change while the members are joining"))
		Expect(change(object.DeepCopy(), func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.BootstrapWithExistingCluster.ClientEndpoints = []string{"http://other:2379"}
		})).To(beRejected("must not change while the members are joining"))
		Expect(change(object, func(e *druidv1alpha1.Etcd) { e.Spec.Labels["a"] = "b" })).To(Succeed())
	})

	DescribeTable("is rejected",
		func(message string, options ...override) {
			Expect(c.Create(ctx, etcd(options...))).To(beRejected(message))
		},
		Entry("with the name of a joining member", "may start with", joining("test-0")),
		Entry("with a duplicate name", "must be unique", joining("source-0"), func(e *druidv1alpha1.Etcd) {
			members := &e.Spec.Etcd.BootstrapWithExistingCluster.Members
			*members = append(*members, (*members)[0])
		}),
		Entry("with http although client TLS is enabled", "clientEndpoints must begin with https://", joining("source-0"), fixture.WithClientTLS()),
		Entry("with http although peer TLS is enabled", "must begin with https://", joining("source-0"), fixture.WithPeerTLS()),
	)
})

func prefix(e *druidv1alpha1.Etcd) { e.Spec.MemberNamePrefix = new("eu") }

func peerURLs(member string, urls ...string) override {
	return func(e *druidv1alpha1.Etcd) {
		e.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.MemberPeerURLs{{MemberName: member, URLs: urls}}
	}
}

// joining sets an existing cluster of one member, which the members of the Etcd join.
func joining(name string) override {
	return func(e *druidv1alpha1.Etcd) {
		e.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
			Members:         []druidv1alpha1.BootstrapExistingMember{{Name: name, PeerURLs: []string{"http://source:2380"}}},
			ClientEndpoints: []string{"http://source:2379"},
		}
	}
}
