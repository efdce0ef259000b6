// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

var _ = Describe("Certificates", func() {
	It("should be issued for an Etcd without TLS fields", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx)
		s.awaitReady(ctx)

		By("mounting the issued Secrets")
		mounted := s.mounted(ctx, Default)
		Expect(mounted).To(HaveKeyWithValue("etcd-ca", HavePrefix("main-client-ca-bundle-")))
		Expect(mounted).To(HaveKeyWithValue("etcd-server-tls", HavePrefix("main-server-")))
		Expect(mounted).To(HaveKeyWithValue("etcd-client-tls", HavePrefix("main-client-")))
		Expect(mounted).To(HaveKeyWithValue("etcd-peer-ca", HavePrefix("main-peer-ca-bundle-")))
		Expect(mounted).To(HaveKeyWithValue("etcd-peer-server-tls", HavePrefix("main-peer-")))
		Expect(mounted).To(HaveKeyWithValue("backup-restore-ca", mounted["etcd-ca"]))
		Expect(mounted).To(HaveKeyWithValue("backup-restore-server-tls", mounted["etcd-server-tls"]))
		Expect(s.recorded(ctx, "tls")(Default)).To(MatchJSON(`{"client":"provisioned","peer":"provisioned"}`))

		By("accepting only clients with the connection Secret")
		connection := &corev1.Secret{}
		s.get(ctx, Default, connection, "main-connection")
		Expect(string(connection.Data["endpoints"])).To(Equal("https://main-client." + s.namespace + ".svc:2379"))
		Expect(s.connects(ctx, Default, s.connection(ctx, Default))).To(Succeed())
		client := &corev1.Secret{}
		s.get(ctx, Default, client, mounted["etcd-client-tls"])
		Expect(connection.Data["tls.crt"]).NotTo(Equal(client.Data["tls.crt"]), "applications have a certificate of their own")

		other := newTestEtcd(ctx)
		other.create(ctx)
		other.awaitReady(ctx)
		Expect(other.connects(ctx, Default, s.connection(ctx, Default))).NotTo(Succeed())
	})

	It("should be kept for a second Etcd in the namespace if the first Etcd is deleted", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx)
		second := &testEtcd{namespace: s.namespace, etcd: newEtcd(s.namespace, "main-client")} // this name is a prefix of Secret names of the first Etcd
		second.create(ctx)
		s.awaitReady(ctx)
		second.awaitReady(ctx)
		pod, names := second.pod(ctx, Default), issued(ctx, Default, s.namespace, "main-client")
		Expect(names).To(HaveLen(8))
		Expect(issued(ctx, Default, s.namespace, "main")).To(HaveLen(8))

		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), s.etcd) }).Should(MatchError(apierrors.IsNotFound, "is not found"))

		Expect(issued(ctx, Default, s.namespace, "main")).To(BeEmpty())
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "main-connection"}, &corev1.Secret{})).To(MatchError(apierrors.IsNotFound, "is not found"))
		Expect(issued(ctx, Default, s.namespace, "main-client")).To(Equal(names))
		Expect(second.pod(ctx, Default).UID).To(Equal(pod.UID))
		Expect(second.connects(ctx, Default, second.connection(ctx, Default))).To(Succeed())
	})

	It("should be kept if the field enableTLS is pruned", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		s.awaitReady(ctx)
		uid := s.pod(ctx, Default).UID

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = nil })
		s.awaitReady(ctx)
		Expect(s.mounted(ctx, Default)).To(HaveKey("etcd-ca"))
		Expect(s.pod(ctx, Default).UID).To(Equal(uid), "nothing changed")
	})

	It("should not be issued for a running cluster without TLS if the field enableTLS is pruned", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) })
		s.awaitReady(ctx)
		Expect(s.mounted(ctx, Default)).NotTo(HaveKey("etcd-ca"))
		Expect(issued(ctx, Default, s.namespace, "main")).To(BeEmpty())

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = nil })
		s.awaitReady(ctx)
		Expect(s.mounted(ctx, Default)).NotTo(HaveKey("etcd-ca"))
	})

	It("should not be required while TLS is disabled, even if the referenced Secrets are missing", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		tls := &druidv1alpha1.TLSConfig{}
		tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name, tls.ClientTLSSecretRef.Name = "missing-ca", "missing-server", "missing-client"
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.EnableTLS, etcd.Spec.Etcd.ClientUrlTLS = new(false), tls
		})
		s.awaitReady(ctx)
		uid := s.pod(ctx, Default).UID

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = nil })
		s.awaitReady(ctx)
		Expect(s.mounted(ctx, Default)).NotTo(HaveKey("etcd-ca"))
		Expect(s.pod(ctx, Default).UID).To(Equal(uid), "nothing changed")

		By("waiting for the Secrets when TLS is enabled")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastOperation.Description).To(ContainSubstring("missing-ca"))
		}).Should(Succeed())
		Expect(s.pod(ctx, Default).UID).To(Equal(uid))
	})

	It("should be issued and deleted when TLS is enabled and disabled", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) })
		s.awaitReady(ctx)

		By("enabling TLS")
		statefulSets.SetReadinessBlocked(s.namespace, true)
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		Eventually(func(g Gomega) { g.Expect(s.mounted(ctx, g)).To(HaveKey("etcd-ca")) }).Should(Succeed())
		statefulSets.SetReadinessBlocked(s.namespace, false)
		s.awaitReady(ctx)
		Eventually(func(g Gomega) {
			g.Expect(s.connects(ctx, g, s.connection(ctx, g))).To(Succeed())
		}).Should(Succeed())

		By("disabling TLS")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) })
		s.awaitReady(ctx)
		Expect(s.mounted(ctx, Default)).NotTo(HaveKey("etcd-ca"))
		Eventually(func(g Gomega) { g.Expect(issued(ctx, g, s.namespace, "main")).To(BeEmpty()) }).Should(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "main-connection"}, &corev1.Secret{})).To(MatchError(apierrors.IsNotFound, "is not found"))
	})

	It("should not be removable from the spec if the user provides them", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		s.awaitReady(ctx)
		mounted := s.mounted(ctx, Default)
		tls := &druidv1alpha1.TLSConfig{}
		tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name, tls.ClientTLSSecretRef.Name = "given-ca", "given-server", "given-client"
		for given, from := range map[string]string{"given-ca": mounted["etcd-ca"], "given-server": mounted["etcd-server-tls"], "given-client": mounted["etcd-client-tls"]} {
			secret := &corev1.Secret{}
			s.get(ctx, Default, secret, from)
			copied := &corev1.Secret{Data: secret.Data}
			copied.Namespace, copied.Name = s.namespace, given
			Expect(env.Client.Create(ctx, copied)).To(Succeed())
		}
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS, etcd.Spec.Etcd.ClientUrlTLS = nil, tls })
		s.awaitReady(ctx)
		Expect(s.mounted(ctx, Default)).To(HaveKeyWithValue("etcd-ca", "given-ca"))

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.ClientUrlTLS = nil })
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastErrors).To(ContainElement(HaveField("Description", ContainSubstring("spec.etcd.clientUrlTls"))))
		}).Should(Succeed())
		Expect(s.mounted(ctx, Default)).To(HaveKeyWithValue("etcd-ca", "given-ca"))
	})
})
