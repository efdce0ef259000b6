// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Newer default images", func() {
	It("should wait for a canary or for one more, and should not delay a spec", func(ctx SpecContext) {
		const earlier, newer = "registry.example.com/etcd-wrapper:v8", "registry.example.com/etcd-wrapper:v9"
		// report writes the conditions of the controller care, which this suite does not run.
		report := func(s *testEtcd, status druidv1alpha1.ConditionStatus) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				etcd := s.read(ctx, g)
				var others []druidv1alpha1.Condition
				for _, condition := range etcd.Status.Conditions {
					if condition.Type != druidv1alpha1.ConditionTypeReady && condition.Type != druidv1alpha1.ConditionTypeAllMembersReady {
						others = append(others, condition)
					}
				}
				for _, conditionType := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTypeAllMembersReady} {
					others = append(others, druidv1alpha1.Condition{Type: conditionType, Status: status, Reason: "Test", Message: "test", LastTransitionTime: metav1.Now(), LastUpdateTime: metav1.Now()})
				}
				etcd.Status.Conditions = others
				g.Expect(env.Client.Status().Update(ctx, etcd)).To(Succeed())
			}).Should(Succeed())
		}
		stopOperator()
		stopOperator = startOperator("v8", false)
		etcds := []*testEtcd{create(ctx), create(ctx), create(ctx)} // each one in its own namespace
		for _, s := range etcds {
			s.awaitReady(ctx)
			report(s, druidv1alpha1.ConditionTrue)
		}
		stopOperator()
		stopOperator = startOperator("v9", false, rollout.Limits{Canaries: 1, CanaryPeriod: time.Second, Timeout: 2 * time.Second})
		DeferCleanup(func() {
			stopOperator()
			stopOperator = startOperator("v1", false)
		})
		for _, s := range etcds {
			statefulSets.SetReadinessBlocked(s.namespace, true)
			DeferCleanup(func() { statefulSets.SetReadinessBlocked(s.namespace, false) })
			s.update(ctx, setOperation("gardener.cloud/operation"))
		}
		// next waits for the next canary, and removes it from the Etcds that wait.
		waiting := slices.Clone(etcds)
		next := func() *testEtcd {
			GinkgoHelper()
			var canary *testEtcd
			Eventually(func(g Gomega) {
				i := slices.IndexFunc(waiting, func(s *testEtcd) bool { return image(s.statefulSet(ctx, g)) == newer })
				g.Expect(i).NotTo(Equal(-1))
				canary = waiting[i]
			}).Should(Succeed())
			waiting = slices.DeleteFunc(waiting, func(s *testEtcd) bool { return s == canary })

			return canary
		}
		first := next()

		By("continuing with one more canary after the first one has failed")
		report(first, druidv1alpha1.ConditionFalse)
		second := next()
		other := waiting[0]
		Eventually(func(g Gomega) {
			g.Expect(first.read(ctx, g).Status.Conditions).To(haveCondition("DefaultsUpdated", "False", "UpdateFailed"))
		}).Should(Succeed())

		By("stopping after both have failed")
		report(second, druidv1alpha1.ConditionFalse)
		Eventually(func(g Gomega) {
			g.Expect(second.read(ctx, g).Status.Conditions).To(haveCondition("DefaultsUpdated", "False", "UpdateFailed"))
			g.Expect(other.read(ctx, g).Status.Conditions).To(haveCondition("DefaultsUpdated", "False", "RolloutStopped", "etcd-wrapper:v8", "etcd-wrapper:v9"))
		}).Should(Succeed())
		Expect(image(other.statefulSet(ctx, Default))).To(Equal(earlier))
		statefulSets.SetReadinessBlocked(other.namespace, false)
		other.awaitReady(ctx)

		By("rolling out a spec with the earlier images")
		pod := other.pod(ctx, Default)
		other.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			quota("4Gi")(etcd)
			setOperation("gardener.cloud/operation")(etcd)
		})
		other.awaitReady(ctx)
		Expect(other.pod(ctx, Default).UID).NotTo(Equal(pod.UID))
		Expect(image(other.statefulSet(ctx, Default))).To(Equal(earlier))
		Expect(fixture.Record(other.managedResource(ctx, Default)).Accepted.Delayed).To(BeTrue())

		By("continuing after the canaries have passed")
		for _, canary := range []*testEtcd{first, second} {
			statefulSets.SetReadinessBlocked(canary.namespace, false)
			report(canary, druidv1alpha1.ConditionTrue)
			canary.awaitReady(ctx)
		}
		Eventually(func(g Gomega) {
			g.Expect(image(other.statefulSet(ctx, g))).To(Equal(newer))
			for _, s := range etcds {
				g.Expect(fixture.Record(s.managedResource(ctx, g)).Rollout.HasPassed()).To(BeTrue())
				g.Expect(s.read(ctx, g).Status.Conditions).NotTo(ContainElement(HaveField("Type", druidv1alpha1.ConditionTypeDefaultsUpdated)))
			}
		}).Should(Succeed())
	})
})
