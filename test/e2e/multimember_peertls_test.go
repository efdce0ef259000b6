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

var _ = Describe("A cluster of three members stays healthy", func() {
	// These changes share a cluster, because the creation of one takes as long as each of them. Every operation must succeed within a second.
	It("when it scales up from one member with a store, and peer TLS is disabled and enabled", quiet, SpecPriority(10), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "peer-tls")
		clients, peers := framework.NewAuthority("e2e-clients"), framework.NewAuthority("e2e-peers")
		certificate := clients.Client("client-client")
		ns.Create(ctx,
			clients.Bundle("client-ca"), clients.Server("client-server", framework.ServerNames("main", ns.Name)...), certificate,
			peers.Bundle("peer-ca"), peers.Server("peer-server", framework.PeerNames("main", ns.Name)...),
		)
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithClientTLS(), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		credentials := framework.WithCertificate(clients.ClientConfig("main-client"), certificate)
		workload := ns.StartWorkloadWith(ctx, etcd, credentials, "from one member to three, with peer TLS")

		timeline := ns.StartTimeline(ctx, etcd)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			fixture.WithPeerTLS()(etcd)
			etcd.Spec.Replicas = 3
		})
		ns.EventuallyReady(ctx, etcd)
		timeline.End("from one member to three, with peer TLS")
		Expect(voters(etcd)).To(Equal(3))
		after := podsByName(ctx, ns)
		Expect(after["main-1"].CreationTimestamp.Time).To(BeTemporally(">", after["main-0"].CreationTimestamp.Time), "the first member restarts before the second one joins")
		Expect(eventsWithReason(ctx, ns, "ReplacingPod")).To(ConsistOf(ContainSubstring("pod main-0")), "only the first member restarts, and only once")
		workload.Stop(ctx)

		changePeerTLS := func(phase, enabled string, expectedRestarts int32, why string, change func(*druidv1alpha1.Etcd)) {
			GinkgoHelper()
			By("changing the cluster so that " + phase)
			workload := ns.StartWorkloadWith(ctx, etcd, credentials, phase)
			before := podsByName(ctx, ns)
			timeline := ns.StartTimeline(ctx, etcd)
			ns.Patch(ctx, etcd, change)
			ns.EventuallyReady(ctx, etcd)
			timeline.End("three members: " + phase)
			Expect(peerTLSEnabled(ctx, ns)).To(HaveEach(enabled))
			expectNoFailures(workload.Stop(ctx))
			Expect(replacedInOrder(ctx, ns, before)).To(HaveLen(3))
			for name, pod := range podsByName(ctx, ns) {
				Expect(restarts(pod)).To(Equal(expectedRestarts), "%s: %s", name, why)
			}
		}
		changePeerTLS("peer TLS is disabled", "false", 0, "the operator updates the peer URLs before the pod starts", func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.PeerUrlTLS = nil
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/peer-tls", "off")
		})
		changePeerTLS("peer TLS is enabled", "true", 1, "the sidecar registers the peer URL when etcd runs, and stops etcd", func(etcd *druidv1alpha1.Etcd) {
			fixture.WithPeerTLS()(etcd)
			delete(etcd.Annotations, "druid.gardener.cloud/peer-tls")
		})
	}, SpecTimeout(specTimeout))

	It("when a member needs a raft snapshot while peer TLS is enabled", Label("long"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "peer-tls-behind")
		clients, peers := framework.NewAuthority("e2e-clients"), framework.NewAuthority("e2e-peers")
		certificate := clients.Client("client-client")
		ns.Create(ctx,
			clients.Bundle("client-ca"), clients.Server("client-server", framework.ServerNames("main", ns.Name)...), certificate,
			peers.Bundle("peer-ca"), peers.Server("peer-server", framework.PeerNames("main", ns.Name)...),
		)
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), fixture.WithClientTLS(), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.SnapshotCount = new(int64(100))
		})
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		before := podsByName(ctx, ns)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.TLS = framework.WithCertificate(clients.ClientConfig("main-client"), certificate)

		By("enabling peer TLS with an image that does not exist, so that the first member is away")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			fixture.WithPeerTLS()(etcd)
			etcd.Spec.Etcd.Image = new(brokenImage)
		})
		ns.Eventually(ctx, etcd, func(g Gomega) { g.Expect(replacedInOrder(ctx, ns, before)).To(HaveLen(1)) })
		for name, pod := range podsByName(ctx, ns) {
			if pod.UID == before[name].UID {
				writeLog.WriteManyTo(ctx, &pod, 6000)

				break
			}
		}

		By("correcting the image")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Image = nil })
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "AllMembersReady")).To(And(HaveField("Reason", "RaftSnapshotBlocked"), HaveField("Message", ContainSubstring("has no peer TLS and cannot send a raft snapshot"))))
			g.Expect(framework.Condition(etcd, "Ready")).To(HaveField("Status", BeEquivalentTo("True")))
		})

		By("disabling peer TLS, and enabling it again")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.PeerUrlTLS = nil
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/peer-tls", "off")
		})
		ns.EventuallyReady(ctx, etcd)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			fixture.WithPeerTLS()(etcd)
			delete(etcd.Annotations, "druid.gardener.cloud/peer-tls")
		})
		ns.EventuallyReady(ctx, etcd)
		Expect(peerTLSEnabled(ctx, ns)).To(HaveEach("true"))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(2*specTimeout))

	It("when TLS is disabled during hibernation", Label("long"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "peer-tls-hibernated")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 10)
		Eventually(peerTLSEnabled).WithArguments(ctx, ns).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(HaveEach("true"))
		hibernate(ctx, ns, etcd)

		By("disabling TLS while the cluster is hibernated")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) })
		ns.Eventually(ctx, etcd, func(g Gomega) { g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(Equal(etcd.Generation))) })

		By("waking up with TLS")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		ns.Eventually(ctx, etcd, func(g Gomega) {
			pods := podsByName(ctx, ns)
			g.Expect(pods).To(HaveLen(3))
			for _, pod := range pods {
				g.Expect(framework.IsPodReady(&pod)).To(BeTrue(), pod.Name)
				Expect(restarts(pod)).To(BeZero(), "%s restarts because its sidecar reads the configuration without TLS", pod.Name)
			}
		})
		workload := ns.StartWorkload(ctx, etcd, "TLS is disabled after the wake-up")

		By("replacing one member after another")
		for replaced := 1; replaced <= 3; replaced++ {
			ns.Eventually(ctx, etcd, func(g Gomega) {
				without := slices.DeleteFunc(peerTLSEnabled(ctx, ns), func(enabled string) bool { return enabled != "false" })
				g.Expect(len(without)).To(BeNumerically(">=", replaced))
			})
		}
		ns.EventuallyReady(ctx, etcd)
		expectShortGaps(workload.Stop(ctx))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})

// restarts returns the sum of the restart counts of the pod's containers.
func restarts(pod corev1.Pod) int32 {
	count := int32(0)
	for _, status := range pod.Status.ContainerStatuses {
		count += status.RestartCount
	}

	return count
}

// peerTLSEnabled returns the annotations of the three members' Leases in which the sidecars report whether the peer
// URLs use TLS.
func peerTLSEnabled(ctx context.Context, ns *framework.TestNamespace) []string {
	GinkgoHelper()
	var values []string
	for _, name := range []string{"main-0", "main-1", "main-2"} {
		lease := &coordinationv1.Lease{}
		Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, lease)).To(Succeed())
		values = append(values, lease.Annotations["member.etcd.gardener.cloud/tls-enabled"])
	}

	return values
}
