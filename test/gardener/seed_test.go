// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/gardener/gardener/pkg/utils/test/matchers"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The last tests, because no other test can run without the Seed.
var _ = Describe("The deletion of a Seed", Label("last"), Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		newShoot("local").delete(ctx) // of make gardener-up
	})

	DescribeTable("removes etcd-druid and the operator", func(ctx SpecContext, mode string, druid bool) {
		setMode(ctx, mode)
		ensureSeed(ctx)
		expectInstalled(ctx, operatorName)
		expectActive(ctx, druid)

		object := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: seedName}}
		Expect(garden.Delete(ctx, object)).To(Succeed())
		Eventually(func() error {
			err := garden.Get(ctx, client.ObjectKeyFromObject(object), object)
			if err == nil && object.Status.LastOperation != nil {
				GinkgoLogr.Info("Waiting for the deletion", "operation", object.Status.LastOperation.Description)
			}

			return err
		}).WithContext(ctx).WithTimeout(deleteTimeout).Should(BeNotFoundError())

		Expect(seed.Get(ctx, etcdDruid, &resourcesv1alpha1.ManagedResource{})).To(BeNotFoundError())
		Expect(seed.Get(ctx, etcdDruid, &appsv1.Deployment{})).To(BeNotFoundError())

		namespaces := &corev1.NamespaceList{}
		Expect(seed.List(ctx, namespaces)).To(Succeed())
		for _, namespace := range namespaces.Items {
			Expect(namespace.Name).NotTo(HavePrefix("extension-"))
		}
	},
		Entry("that took over", "TakeOver", false),
		Entry("that was registered in the mode StandBy", "StandBy", true),
		Entry("that handed back", "GiveBack", true),
	)
})
