// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Hibernation", func() {
	It("deletes all pods, keeps the volume, and loses no key", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "hibernation")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 50)
		claim := ns.Claim(ctx, etcd)

		By("hibernating")
		hibernate(ctx, ns, etcd)
		Expect(ns.Claim(ctx, etcd).UID).To(Equal(claim.UID), "the claim is the same")

		By("waking up through the scale subresource")
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
		Expect(ns.Client.SubResource("scale").Update(ctx, etcd, client.WithSubResourceBody(scale))).To(Succeed())
		Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Spec.Replicas).To(BeEquivalentTo(1))
		ns.EventuallyReady(ctx, etcd)

		Expect(ns.Claim(ctx, etcd).UID).To(Equal(claim.UID))
		writeLog.ExpectComplete(ctx)

		By("deleting the Etcd while it is hibernated")
		hibernate(ctx, ns, etcd)
		Expect(ns.Client.Delete(ctx, etcd)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, etcd) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
		expectRemaining(ctx, ns, "PersistentVolumeClaim main-main-0")
	}, SpecTimeout(specTimeout))
})

// hibernate sets the replicas to 0 and waits until no pod exists and the status reports it.
func hibernate(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })
	ns.Eventually(ctx, etcd, func(g Gomega) {
		pods := &corev1.PodList{}
		g.Expect(ns.Client.List(ctx, pods, client.InNamespace(ns.Name))).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())

		g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(Equal(etcd.Generation)))
		g.Expect(etcd.Status.LastOperation.State).To(BeEquivalentTo("Succeeded"))
		g.Expect(etcd.Status.Replicas).To(BeZero())
		g.Expect(etcd.Status.ReadyReplicas).To(BeZero())
		g.Expect(framework.Condition(etcd, "AllMembersReady").Reason).To(Equal("NotChecked"))

		statefulSet := &appsv1.StatefulSet{}
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
		g.Expect(statefulSet.Spec.Replicas).To(HaveValue(BeZero()))
	})
}
