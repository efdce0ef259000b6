// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

var _ = Describe("The CA rotation", func() {
	// rotate tests a rotation from the view of clients. The functions begin and complete request its two phases.
	rotate := func(ctx SpecContext, s *testEtcd, begin, complete func()) {
		var oldOnly etcdclient.TLS
		Eventually(func(g Gomega) { oldOnly = s.connection(ctx, g) }).Should(Succeed())
		oldCA := s.cas(ctx, Default)
		Expect(oldCA).To(HaveLen(1))
		isAccepted := func(credentials etcdclient.TLS) func(Gomega) {
			return func(g Gomega) { g.Expect(s.connects(ctx, g, credentials)).To(Succeed()) }
		}

		By("preparing it, while the members accept a client that trusts only the old CA")
		stop := make(chan struct{})
		watched := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			watched <- watch(stop, func() error {
				pod := &corev1.Pod{}
				if err := env.Client.Get(ctx, keyOf(s.namespace, "main-0"), pod); err != nil {
					return nil // it restarts
				}
				return environment.Handshake(ctx, env.Client, pod, oldOnly, "main-client")
			})
		}()
		begin()
		Eventually(s.recorded(ctx, "rotation")).Should(ContainSubstring("\"stage\":\"Prepared\""))
		s.awaitReady(ctx)
		close(stop)
		Expect(<-watched).NotTo(HaveOccurred())
		Expect(s.cas(ctx, Default)).To(HaveLen(2))
		bundle := s.connection(ctx, Default)
		Expect(bundle.CA).NotTo(Equal(oldOnly.CA))
		Expect(bundle.Certificate).NotTo(Equal(oldOnly.Certificate))
		Expect(s.connects(ctx, Default, bundle)).To(Succeed())
		Expect(s.connects(ctx, Default, oldOnly)).To(Succeed())

		By("not completing it without a request")
		Consistently(s.recorded(ctx, "rotation"), time.Second, 100*time.Millisecond).Should(ContainSubstring("\"stage\":\"Prepared\""))

		By("completing it, while the members accept a client that trusts both CAs")
		stop = make(chan struct{})
		go func() {
			defer GinkgoRecover()
			watched <- watch(stop, func() error {
				pod := &corev1.Pod{}
				if err := env.Client.Get(ctx, keyOf(s.namespace, "main-0"), pod); err != nil {
					return nil // it restarts
				}
				return environment.Handshake(ctx, env.Client, pod, bundle, "main-client")
			})
		}()
		complete()
		Eventually(s.recorded(ctx, "rotation")).ShouldNot(ContainSubstring("stage"))
		s.awaitReady(ctx)
		close(stop)
		Expect(<-watched).NotTo(HaveOccurred())
		Eventually(func(g Gomega) { g.Expect(s.cas(ctx, g)).To(HaveLen(1)) }).Should(Succeed())
		Expect(s.cas(ctx, Default)).NotTo(Equal(oldCA))
		Eventually(func(g Gomega) { g.Expect(issued(ctx, g, s.namespace, "main")).To(HaveLen(8)) }).Should(Succeed())
		newOnly := s.connection(ctx, Default)
		Expect(newOnly.CA).NotTo(Equal(bundle.CA))
		Eventually(isAccepted(newOnly)).Should(Succeed())
		Expect(s.connects(ctx, Default, oldOnly)).NotTo(Succeed())

		By("changing nothing afterwards")
		uid := s.pod(ctx, Default).UID
		Consistently(func(g Gomega) {
			g.Expect(s.pod(ctx, g).UID).To(Equal(uid))
			g.Expect(s.recorded(ctx, "rotation")(g)).NotTo(ContainSubstring("stage"))
		}, 3*time.Second, 100*time.Millisecond).Should(Succeed())
	}

	It("should follow the rotation of the shoot, and remove the old CA only when no member needs it", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.writeCluster(ctx, "", nil)
		s.create(ctx)
		s.awaitReady(ctx)
		initiatedAt := time.Now().Add(-time.Second).Truncate(time.Second)
		rotate(ctx, s,
			func() { s.writeCluster(ctx, "Preparing", &initiatedAt) },
			func() {
				statefulSets.SetReadinessBlocked(s.namespace, true)
				s.writeCluster(ctx, "Completing", &initiatedAt)
				Eventually(s.recorded(ctx, "rotation")).Should(ContainSubstring("\"stage\":\"CompleteLeaves\""))
				s.writeCluster(ctx, "Completed", &initiatedAt)
				By("keeping the old CA although the rotation of the shoot is completed")
				Consistently(func(g Gomega) { g.Expect(s.cas(ctx, g)).To(HaveLen(2)) }, 2*time.Second, 100*time.Millisecond).Should(Succeed())
				statefulSets.SetReadinessBlocked(s.namespace, false)
			})
	})

	It("should follow the rotation of the Garden in its namespace", func(ctx SpecContext) {
		s := &testEtcd{namespace: "garden", etcd: newEtcd("garden", "main")}
		s.writeGarden(ctx, "", nil)
		DeferCleanup(s.delete)
		s.create(ctx)
		s.awaitReady(ctx)

		By("ignoring annotations")
		s.annotate(ctx, "druid.gardener.cloud/rotate-ca", "start")
		Eventually(func(g Gomega) { g.Expect(s.read(ctx, g).Annotations).NotTo(HaveKey("druid.gardener.cloud/rotate-ca")) }).Should(Succeed())
		Expect(s.cas(ctx, Default)).To(HaveLen(1))

		initiatedAt := time.Now().Add(-time.Second).Truncate(time.Second)
		rotate(ctx, s,
			func() { s.writeGarden(ctx, "Preparing", &initiatedAt) },
			func() { s.writeGarden(ctx, "Completing", &initiatedAt) })
		started := strconv.FormatInt(initiatedAt.Unix(), 10)
		ca := &corev1.Secret{}
		s.get(ctx, Default, ca, s.cas(ctx, Default)[0])
		Expect(ca.Labels).To(HaveKeyWithValue("last-rotation-initiation-time", started))
	})

	It("should follow annotations outside of shoots", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx)
		s.awaitReady(ctx)
		awaitAnnotationRemoved := func() {
			Eventually(func(g Gomega) { g.Expect(s.read(ctx, g).Annotations).NotTo(HaveKey("druid.gardener.cloud/rotate-ca")) }).Should(Succeed())
		}
		rotate(ctx, s,
			func() { s.annotate(ctx, "druid.gardener.cloud/rotate-ca", "start"); awaitAnnotationRemoved() },
			func() { s.annotate(ctx, "druid.gardener.cloud/rotate-ca", "complete"); awaitAnnotationRemoved() })
	})

	It("should ignore annotations in shoots", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.writeCluster(ctx, "", nil)
		s.create(ctx)
		s.awaitReady(ctx)
		uid := s.pod(ctx, Default).UID
		s.annotate(ctx, "druid.gardener.cloud/rotate-ca", "start")
		Eventually(func(g Gomega) { g.Expect(s.read(ctx, g).Annotations).NotTo(HaveKey("druid.gardener.cloud/rotate-ca")) }).Should(Succeed())
		Expect(s.pod(ctx, Default).UID).To(Equal(uid))
		Expect(s.cas(ctx, Default)).To(HaveLen(1))
	})
})
