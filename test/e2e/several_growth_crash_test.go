// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/landscape"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("A cluster that grows from one member", func() {
	It("stays one cluster and loses no key where etcd is killed at each stage, with a newer snapshot in the store than in its database", SpecPriority(10), func(ctx SpecContext) {
		story := seed.Begin(ctx, "growth-crash")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(story))
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		ledger := story.Ledger(etcd)
		ledger.Write(ctx, 20)
		members, err := ledger.Members(ctx)
		Expect(err).NotTo(HaveOccurred())
		cluster := members.Header.ClusterId
		kill := func(stage string) {
			GinkgoHelper()
			By("killing etcd of the first member " + stage)
			pod := story.Pod(ctx, etcd)
			story.CrashWithOlderDatabase(ctx, etcd, pod, func() {
				ledger.Write(ctx, 5)
				story.Eventually(ctx, etcd, func(g Gomega) {
					saved := max(lastRevision(ctx, story, "main-full-snap"), lastRevision(ctx, story, "main-delta-snap"))
					g.Expect(saved).To(BeNumerically(">=", ledger.Revision))
				})
			})
			story.Eventually(ctx, etcd, func(g Gomega) {
				now := story.Pod(ctx, etcd)
				g.Expect(landscape.IsPodReady(now)).To(BeTrue())
				g.Expect(now.UID).To(Equal(pod.UID), "its container restarts, and not its pod")
				g.Expect(restartsOf(*now)["etcd"]).To(BeNumerically(">", restartsOf(*pod)["etcd"]))
			})
			members, err := ledger.Members(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(members.Header.ClusterId).To(Equal(cluster), "no second cluster was restored")
			ledger.ExpectComplete(ctx)
		}
		limit := func(pods string) {
			GinkgoHelper()
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: story.Namespace, Name: "pods"}}
			Expect(story.Client.Delete(ctx, quota)).To(Or(Succeed(), MatchError(ContainSubstring("not found"))))
			if pods != "" {
				quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
				story.Create(ctx, quota)
			}
		}
		first := story.Pod(ctx, etcd).UID

		By("growing to three members, while no more than one pod may run")
		limit("1")
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		story.Eventually(ctx, etcd, func(g Gomega) {
			pod, found := story.FindPod(ctx, etcd)
			g.Expect(found).To(BeTrue())
			g.Expect(pod.UID).NotTo(Equal(first), "it restarts with the size of the cluster")
			g.Expect(landscape.IsPodReady(pod)).To(BeTrue())
		})
		first = story.Pod(ctx, etcd).UID
		kill("before a learner joins")

		By("letting a second pod run")
		limit("2")
		story.Eventually(ctx, etcd, func(g Gomega) {
			members, err := ledger.Members(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(members.Members).To(HaveLen(2))
		})
		kill("as soon as the second member has joined")
		story.Eventually(ctx, etcd, func(g Gomega) {
			members, err := ledger.Members(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(members.Members).To(And(HaveLen(2), HaveEach(HaveField("IsLearner", BeFalse()))))
		})
		kill("when the second member votes, and the third cannot start")

		By("letting a third pod run")
		limit("")
		story.EventuallyReady(ctx, etcd)
		Expect(voters(etcd)).To(Equal(3))
		kill("when all members vote")
		story.EventuallyReady(ctx, etcd)
		Expect(story.Pod(ctx, etcd).UID).To(Equal(first), "the first member restarts no second time")
		ledger.ExpectComplete(ctx)
	}, SpecTimeout(storyTimeout+storyTimeout/2)) // four restarts of one container, each after a longer back-off of the kubelet
})
