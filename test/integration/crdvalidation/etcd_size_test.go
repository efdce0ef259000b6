// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	It("can be increased, decreased, set to 0, and restored, and cannot become even", func() {
		object := create(fixture.WithReplicas(1))
		for _, size := range []int32{5, 3, 0, 3, 1} {
			Expect(change(object, fixture.WithReplicas(size))).To(Succeed())
		}
		Expect(change(object, fixture.WithReplicas(2))).To(beRejected("spec.replicas must be 0, 1, 3, 5 or 7"))
	})

	It("is 2 on creation only if the members join an existing cluster", func() {
		object := create(fixture.WithReplicas(2), joining("source-0"))
		Expect(change(object.DeepCopy(), fixture.WithReplicas(4))).To(beRejected("spec.replicas must be 0, 1, 3, 5 or 7"))
		Expect(change(object, fixture.WithReplicas(3))).To(Succeed())
		Expect(change(object, fixture.WithReplicas(2))).To(beRejected("spec.replicas must be 0, 1, 3, 5 or 7"))
	})

	DescribeTable("does not change in the opposite direction during a scale operation",
		func(reason string, isIncreaseAllowed, isDecreaseAllowed, isBootstrapChangeAllowed bool) {
			object := create(fixture.WithReplicas(3), joining("source-0"))
			before := object.DeepCopy()
			object.Status.Conditions = []druidv1alpha1.Condition{{
				Type: druidv1alpha1.ConditionTypeScaleOperationComplete, Status: druidv1alpha1.ConditionFalse, Reason: reason,
				LastTransitionTime: metav1.Now(), LastUpdateTime: metav1.Now(),
			}}
			Expect(c.Status().Patch(ctx, object, client.MergeFrom(before))).To(Succeed())
			expectChange := func(isAllowed bool, mutate override) {
				GinkgoHelper()
				changed := object.DeepCopy()
				mutate(changed)
				err := c.Patch(ctx, changed, client.MergeFrom(object), client.DryRunAll)
				if isAllowed {
					Expect(err).NotTo(HaveOccurred())
				} else {
					Expect(err).To(beRejected("ScaleOperationComplete"))
				}
			}
			expectChange(isIncreaseAllowed, fixture.WithReplicas(5))
			expectChange(isDecreaseAllowed, fixture.WithReplicas(1))
			expectChange(true, fixture.WithReplicas(0))
			expectChange(isBootstrapChangeAllowed, func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.BootstrapWithExistingCluster = nil })
		},
		Entry("while members are removed", druidv1alpha1.ReasonScalingIn, false, true, false),
		Entry("while members are added", druidv1alpha1.ReasonScalingOut, true, false, false),
		Entry("while no learner has joined", druidv1alpha1.ReasonJoinPending, true, true, true),
		Entry("while members of the joined cluster are removed", druidv1alpha1.ReasonBootstrapMembersRemoval, false, false, true),
	)

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
