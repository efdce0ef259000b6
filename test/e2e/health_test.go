// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The conditions Ready and Reconciled", func() {
	It("report what clients see while Service, certificates, admission and authentication are broken in turn", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "health")
		clients, peers, backups := framework.NewAuthority("e2e-clients"), framework.NewAuthority("e2e-peers"), framework.NewAuthority("e2e-backups")
		certificate, bundle := clients.Client("client-client"), clients.Bundle("client-ca")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithTLS(), withLocalStore(ns))
		ns.Create(ctx,
			bundle, clients.Server("client-server", framework.ServerNames("main", ns.Name)...), certificate,
			peers.Bundle("peer-ca"), peers.Server("peer-server", framework.PeerNames("main", ns.Name)...),
			backups.Bundle("backup-ca"), backups.Server("backup-server", framework.ServerNames("main", ns.Name)...), backups.Client("backup-client"), etcd,
		)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.TLS = framework.WithCertificate(clients.ClientConfig("main-client"), certificate)
		writeLog.Write(ctx, 10)
		pod := ns.Pod(ctx, etcd)

		// reports waits until both conditions have these statuses and reasons, and their messages contain these parts.
		reports := func(ready, message, reconciled, waitsFor string) {
			GinkgoHelper()
			ns.Eventually(ctx, etcd, func(g Gomega) {
				for conditionType, expected := range map[druidv1alpha1.ConditionType][2]string{"Ready": {ready, message}, "Reconciled": {reconciled, waitsFor}} {
					condition := framework.Condition(etcd, conditionType)
					g.Expect(string(condition.Status)+" "+condition.Reason).To(Equal(expected[0]), "%s: %s", conditionType, condition.Message)
					g.Expect(condition.Message).To(ContainSubstring(expected[1]))
				}
				isReady := ready == "True Quorate" && reconciled == "True Reconciled" // pods are not ready before they are updated
				g.Expect(etcd.Status.Ready).To(HaveValue(Equal(isReady)), "gardenlet reads it")
			})
		}
		// recovers waits until the Etcd is as before, with the same pod.
		recovers := func() {
			GinkgoHelper()
			ns.EventuallyReady(ctx, etcd)
			reports("True Quorate", "", "True Reconciled", "")
			Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
			writeLog.ExpectComplete(ctx)
		}
		recovers()

		By("changing the selector of the client Service, which the operator repairs")
		service := &corev1.Service{}
		key := client.ObjectKey{Namespace: ns.Name, Name: "main-client"}
		Expect(ns.Client.Get(ctx, key, service)).To(Succeed())
		before := service.DeepCopy()
		service.Spec.Selector = map[string]string{"no": "pod"}
		Expect(ns.Client.Patch(ctx, service, client.MergeFrom(before))).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, key, service)).To(Succeed())
			g.Expect(service.Spec.Selector).To(Equal(before.Spec.Selector))
		})
		recovers()

		By("replacing the CA of the clients, which then cannot verify the certificate of the member")
		setData := func(data map[string][]byte) {
			GinkgoHelper()
			secret := &corev1.Secret{}
			Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(bundle), secret)).To(Succeed())
			patched := secret.DeepCopy()
			patched.Data = data
			Expect(ns.Client.Patch(ctx, patched, client.MergeFrom(secret))).To(Succeed())
		}
		setData(framework.NewAuthority("e2e-others").Bundle("client-ca").Data)
		reports("False CertificatesInvalid", "No client can complete a TLS handshake", "True Reconciled", "")
		Expect(framework.Condition(etcd, "SecretsValid").Message).To(ContainSubstring("tls.crt of Secret client-server does not verify with ca.crt of Secret client-ca"))
		setData(bundle.Data)
		recovers()

		By("requesting a pod that the admission refuses")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.PriorityClassName = new("absent") })
		reports("True Quorate", "", "False Waiting", "absent")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.PriorityClassName = nil })
		recovers()

		By("enabling the authentication of etcd, so that the readiness probe fails")
		writeLog.EnableAuthentication(ctx)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			condition := framework.Condition(etcd, "Ready")
			g.Expect(string(condition.Status) + " " + condition.Reason).To(Equal("False AuthenticationRequired"))
			g.Expect(condition.Message).To(ContainSubstring("disable the authentication of etcd"))
			g.Expect(etcd.Status.Ready).To(HaveValue(BeFalse()), "gardenlet reads it")
		})
		writeLog.DisableAuthentication(ctx)
		recovers()
	}, SpecTimeout(specTimeout))
})
