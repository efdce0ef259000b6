// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	"context"
	"encoding/json"
	"time"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// modeTimeout is how long gardenlet, gardener-resource-manager and the operator need for a change of the mode.
const modeTimeout = 10 * time.Minute

// etcdDruid is the Deployment of gardenlet's etcd-druid, and its ManagedResource.
var etcdDruid = client.ObjectKey{Namespace: "garden", Name: "etcd-druid"}

// setMode changes the value of the operator's chart in the garden.
func setMode(ctx context.Context, mode string) {
	GinkgoHelper()

	deployment := &gardencorev1.ControllerDeployment{}
	Expect(garden.Get(ctx, client.ObjectKey{Name: operatorName}, deployment)).To(Succeed())

	before, values := deployment.DeepCopy(), map[string]any{}
	Expect(json.Unmarshal(deployment.Helm.Values.Raw, &values)).To(Succeed())
	values["predecessor"] = mode
	raw, err := json.Marshal(values)
	Expect(err).NotTo(HaveOccurred())
	deployment.Helm.Values = &apiextensionsv1.JSON{Raw: raw}
	Expect(garden.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
}

// expectActive expects that etcd-druid is active, or that the operator is the leader and etcd-druid is not active.
func expectActive(ctx context.Context, druid bool) {
	GinkgoHelper()
	Eventually(func(g Gomega) { checkActive(ctx, g, druid) }).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
}

func checkActive(ctx context.Context, g Gomega, druid bool) {
	deployment, resource := &appsv1.Deployment{}, &resourcesv1alpha1.ManagedResource{}
	g.Expect(seed.Get(ctx, etcdDruid, deployment)).To(Succeed())
	g.Expect(seed.Get(ctx, etcdDruid, resource)).To(Succeed())

	lease := &coordinationv1.Lease{}
	g.Expect(seed.Get(ctx, client.ObjectKey{Namespace: "garden", Name: "druid-leader-election"}, lease)).To(Succeed())

	if druid {
		g.Expect(lease.Spec.HolderIdentity).NotTo(HaveValue(HaveSuffix("_" + operatorName)))
		g.Expect(deployment.Status.ReadyReplicas).To(BeNumerically(">", 0))
		g.Expect(resource.Annotations).NotTo(HaveKey(resourcesv1alpha1.Ignore))

		return
	}

	g.Expect(deployment.Spec.Replicas).To(HaveValue(BeZero()))
	g.Expect(resource.Annotations).To(HaveKeyWithValue(resourcesv1alpha1.Ignore, "true"))
	g.Expect(lease.Spec.HolderIdentity).To(HaveValue(HaveSuffix("_" + operatorName)))
}

// waitForReconciliations waits until gardenlet has reconciled the Seed twice since the call, the second time completely.
func waitForReconciliations(ctx context.Context) {
	GinkgoHelper()

	object := &gardencorev1beta1.Seed{}

	for range 2 {
		start := time.Now()
		Eventually(func(g Gomega) {
			g.Expect(garden.Get(ctx, client.ObjectKey{Name: seedName}, object)).To(Succeed())
			g.Expect(object.Status.LastOperation).NotTo(BeNil())
			g.Expect(object.Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded), object.Status.LastOperation.Description)
			g.Expect(object.Status.LastOperation.LastUpdateTime.Time).To(BeTemporally(">", start))
		}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
	}
}

// expectSeed expects that all conditions of the Seed are True, and that a constraint exists only if a ManagedResource is ignored.
func expectSeed(ctx context.Context, ignored bool) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		object := &gardencorev1beta1.Seed{}
		g.Expect(garden.Get(ctx, client.ObjectKey{Name: seedName}, object)).To(Succeed())
		g.Expect(object.Status.Conditions).NotTo(BeEmpty())
		for _, c := range object.Status.Conditions {
			g.Expect(c.Status).To(Equal(gardencorev1beta1.ConditionTrue), "%s is %s: %s", c.Type, c.Reason, c.Message)
		}

		violated := ContainElement(And(HaveField("Type", gardencorev1beta1.SeedManagedResourcesHonored), HaveField("Status", gardencorev1beta1.ConditionFalse)))
		if ignored {
			g.Expect(object.Status.Constraints).To(violated)
		} else {
			g.Expect(object.Status.Constraints).NotTo(violated)
		}
	}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
}

var _ = Describe("The modes of the operator under a gardenlet that reconciles its seed each minute", Ordered, func() {
	shoot := newShoot("modes")

	BeforeAll(func(ctx SpecContext) {
		DeferCleanup(shoot.delete)
		DeferCleanup(func(ctx SpecContext) {
			setMode(ctx, "TakeOver")
			expectActive(ctx, false)
		})
		Expect(garden.Create(ctx, shoot.Shoot)).To(Succeed())
		shoot.waitUntilReconciled(ctx)
		shoot.pods = shoot.expectEtcdsReady(ctx)
	})

	It("stays active across reconciliations of the seed after it took over", func(ctx SpecContext) {
		expectActive(ctx, false)
		waitForReconciliations(ctx)
		checkActive(ctx, Default, false)
		expectSeed(ctx, true)
	})

	It("hands back, and gardenlet's etcd-druid becomes active", func(ctx SpecContext) {
		setMode(ctx, "GiveBack")
		expectActive(ctx, true)
		waitForReconciliations(ctx)
		checkActive(ctx, Default, true)
		expectSeed(ctx, false)
		Expect(shoot.etcdPods(ctx)).To(Equal(shoot.pods), "the hand-back replaced a pod")
	})

	It("takes over again", func(ctx SpecContext) {
		setMode(ctx, "TakeOver")
		expectActive(ctx, false)
		shoot.operate(ctx, "reconcile")
		shoot.expectPods(ctx, false)
	})
})
