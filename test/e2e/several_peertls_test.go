// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Three members go on serving", func() {
	It("when peer TLS is switched on, and off", Serial, func(ctx SpecContext) {
		story := seed.Begin(ctx, "peer-tls")
		clients, peers := framework.NewAuthority("e2e-clients"), framework.NewAuthority("e2e-peers")
		certificate := clients.Client("client-client")
		story.Create(ctx,
			clients.Bundle("client-ca"), clients.Server("client-server", framework.ServerNames("main", story.Namespace)...), certificate,
			peers.Bundle("peer-ca"), peers.Server("peer-server", framework.PeerNames("main", story.Namespace)...),
		)
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), fixture.WithClientTLS())
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		users := story.UseWith(ctx, etcd, framework.WithCertificate(clients.Trusting("main-client"), certificate), "peer TLS is switched on")

		timeline := story.Watch(ctx, etcd)
		story.Change(ctx, etcd, fixture.WithPeerTLS())
		story.EventuallyReady(ctx, etcd)
		timeline.End("peer TLS of three members is switched on")
		Expect(peerTLS(ctx, story)).To(HaveEach("true"))

		By("switching it off")
		expectNoFailures(users.End(ctx))
		users = story.UseWith(ctx, etcd, framework.WithCertificate(clients.Trusting("main-client"), certificate), "peer TLS is switched off")
		before := podsByName(ctx, story)
		timeline = story.Watch(ctx, etcd)
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.PeerUrlTLS = nil
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/peer-tls", "off")
		})
		story.EventuallyReady(ctx, etcd)
		timeline.End("peer TLS of three members is switched off")
		Expect(peerTLS(ctx, story)).To(HaveEach("false"))
		expectNoFailures(users.End(ctx))
		Expect(replacedInOrder(ctx, story, before)).To(HaveLen(3))
		for name, pod := range podsByName(ctx, story) {
			Expect(restarts(pod)).To(BeZero(), "%s is told before it starts", name)
		}
	}, SpecTimeout(storyTimeout))

	It("without TLS after they hibernated with it", SpecPriority(8), func(ctx SpecContext) {
		story := seed.Begin(ctx, "peer-tls-asleep")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3))
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		ledger := story.Ledger(etcd)
		ledger.Write(ctx, 10)
		Eventually(peerTLS).WithArguments(ctx, story).WithContext(ctx).WithTimeout(framework.Soon).WithPolling(framework.Pause).Should(HaveEach("true"))
		hibernate(ctx, story, etcd)

		By("switching TLS off while no member runs")
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) })
		story.Eventually(ctx, etcd, func(g Gomega) { g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(Equal(etcd.Generation))) })

		By("waking up, with TLS")
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		story.Eventually(ctx, etcd, func(g Gomega) {
			pods := podsByName(ctx, story)
			g.Expect(pods).To(HaveLen(3))
			for _, pod := range pods {
				g.Expect(framework.IsPodReady(&pod)).To(BeTrue(), pod.Name)
				Expect(restarts(pod)).To(BeZero(), "%s stops because its sidecar reads the configuration without TLS", pod.Name)
			}
		})
		users := story.Use(ctx, etcd, "peer TLS is switched off while the members hibernate, and they wake up")

		By("replacing one member after the other")
		for replaced := 1; replaced <= 3; replaced++ {
			story.Eventually(ctx, etcd, func(g Gomega) {
				without := slices.DeleteFunc(peerTLS(ctx, story), func(enabled string) bool { return enabled != "false" })
				g.Expect(len(without)).To(BeNumerically(">=", replaced))
			})
		}
		story.EventuallyReady(ctx, etcd)
		expectShortGaps(users.End(ctx))
		ledger.ExpectComplete(ctx)
	}, SpecTimeout(storyTimeout))
})

// restarts counts how often containers of the pod were started again.
func restarts(pod corev1.Pod) int32 {
	count := int32(0)
	for _, status := range pod.Status.ContainerStatuses {
		count += status.RestartCount
	}

	return count
}

// peerTLS is what the sidecars of three members say about their peer URLs.
func peerTLS(ctx context.Context, story *framework.Story) []string {
	GinkgoHelper()
	var said []string
	for _, name := range []string{"main-0", "main-1", "main-2"} {
		lease := &coordinationv1.Lease{}
		Expect(story.Client.Get(ctx, client.ObjectKey{Namespace: story.Namespace, Name: name}, lease)).To(Succeed())
		said = append(said, lease.Annotations["member.etcd.gardener.cloud/tls-enabled"])
	}

	return said
}
