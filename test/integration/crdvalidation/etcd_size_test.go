// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The size of an Etcd", func() {
	DescribeTable("is rejected on creation",
		func(size int32, message string) {
			Expect(c.Create(ctx, etcd(fixture.WithReplicas(size)))).To(beRejected(message))
		},
		Entry("below 0", int32(-1), "spec.replicas"),
		Entry("when even", int32(2), "spec.replicas must be 0, 1, 3, 5 or 7"),
		Entry("above 7", int32(9), "spec.replicas must be 0, 1, 3, 5 or 7"),
	)

	It("can be increased, set to 0, and restored", func() {
		object := create(fixture.WithReplicas(1))
		for _, size := range []int32{3, 0, 3} {
			Expect(change(object, fixture.WithReplicas(size))).To(Succeed())
		}
	})

	It("cannot be decreased except to 0, and cannot become even", func() {
		object := create(fixture.WithReplicas(5))
		Expect(change(object.DeepCopy(), fixture.WithReplicas(3))).To(beRejected("can be increased, or set to 0"))
		Expect(change(object.DeepCopy(), fixture.WithReplicas(6))).To(beRejected("spec.replicas must be 0, 1, 3, 5 or 7"))
	})

	It("follows the same rules through the scale subresource", func() {
		object := create(fixture.WithReplicas(1))
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
		Expect(c.SubResource("scale").Update(ctx, object, client.WithSubResourceBody(scale))).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		Expect(object.Spec.Replicas).To(BeEquivalentTo(3))

		scale.Spec.Replicas, scale.ResourceVersion = 4, ""
		Expect(c.SubResource("scale").Update(ctx, object, client.WithSubResourceBody(scale))).To(beRejected("spec.replicas must be 0, 1, 3, 5 or 7"))
	})

	It("equals the number of addresses of externally managed members, which can be even", func() {
		object := create(fixture.WithReplicas(2), externallyManaged("10.0.0.1", "10.0.0.2"))
		Expect(change(object.DeepCopy(), externallyManaged("10.0.0.1", "10.0.0.3"))).To(Succeed())
		Expect(change(object.DeepCopy(), externallyManaged("10.0.0.1"))).To(beRejected("as many entries"))
		Expect(change(object.DeepCopy(), func(e *druidv1alpha1.Etcd) { e.Spec.ExternallyManagedMemberAddresses = nil })).
			To(beRejected("can only be set on creation"))
		Expect(change(create(fixture.WithName("managed")), externallyManaged("10.0.0.1"))).To(beRejected("can only be set on creation"))
	})

	It("does not block other changes if an older CustomResourceDefinition accepted it", func() {
		object := createWithOlderCRD(fixture.WithReplicas(2))
		Expect(change(object, func(e *druidv1alpha1.Etcd) { e.Spec.Labels["a"] = "b" })).To(Succeed())

		before := object.DeepCopy()
		object.Status.Ready = new(true)
		Expect(c.Status().Patch(ctx, object, client.MergeFrom(before))).To(Succeed())

		Expect(change(object.DeepCopy(), fixture.WithReplicas(4))).To(beRejected("spec.replicas must be 0, 1, 3, 5 or 7"))
		Expect(change(object, fixture.WithReplicas(3))).To(Succeed())
	})
})

func externallyManaged(addresses ...string) override {
	return func(e *druidv1alpha1.Etcd) { e.Spec.ExternallyManagedMemberAddresses = addresses }
}
