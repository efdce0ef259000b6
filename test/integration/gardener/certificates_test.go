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
	It("should be issued for an Etcd that says nothing about TLS", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx)
		s.ready(ctx)

		By("mounting what was issued")
		mounted := s.mounted(ctx, Default)
		Expect(mounted).To(HaveKeyWithValue("etcd-ca", HavePrefix("main-client-ca-bundle-")))
		Expect(mounted).To(HaveKeyWithValue("etcd-server-tls", HavePrefix("main-server-")))
		Expect(mounted).To(HaveKeyWithValue("etcd-client-tls", HavePrefix("main-client-")))
		Expect(mounted).To(HaveKeyWithValue("etcd-peer-ca", HavePrefix("main-peer-ca-bundle-")))
		Expect(mounted).To(HaveKeyWithValue("etcd-peer-server-tls", HavePrefix("main-peer-")))
		Expect(mounted).To(HaveKeyWithValue("backup-restore-ca", mounted["etcd-ca"]))
		Expect(mounted).To(HaveKeyWithValue("backup-restore-server-tls", mounted["etcd-server-tls"]))
		Expect(s.recorded(ctx, "tls")(Default)).To(MatchJSON(`{"client":"provisioned","peer":"provisioned"}`))

		By("serving only clients with the Secret for applications")
		connection := &corev1.Secret{}
		s.get(ctx, Default, connection, "main-connection")
		Expect(string(connection.Data["endpoints"])).To(Equal("https://main-client." + s.namespace + ".svc:2379"))
		Expect(s.connects(ctx, Default, s.connection(ctx, Default))).To(Succeed())

		other := newTestEtcd(ctx)
		other.create(ctx)
		other.ready(ctx)
		Expect(other.connects(ctx, Default, s.connection(ctx, Default))).NotTo(Succeed())
	})

	It("should leave those of a second Etcd in the namespace alone when the first is deleted", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx)
		second := &testEtcd{namespace: s.namespace, etcd: newEtcd(s.namespace, "main-client")} // a name that is also the beginning of names of the first
		second.create(ctx)
		s.ready(ctx)
		second.ready(ctx)
		pod, names := second.pod(ctx, Default), issued(ctx, Default, s.namespace, "main-client")
		Expect(names).To(HaveLen(7))
		Expect(issued(ctx, Default, s.namespace, "main")).To(HaveLen(7))

		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), s.etcd) }).Should(MatchError(apierrors.IsNotFound, "is not found"))

		Expect(issued(ctx, Default, s.namespace, "main")).To(BeEmpty())
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "main-connection"}, &corev1.Secret{})).To(MatchError(apierrors.IsNotFound, "is not found"))
		Expect(issued(ctx, Default, s.namespace, "main-client")).To(Equal(names))
		Expect(second.pod(ctx, Default).UID).To(Equal(pod.UID))
		Expect(second.connects(ctx, Default, second.connection(ctx, Default))).To(Succeed())
	})

	It("should not be given up because a field is pruned", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		s.ready(ctx)
		uid := s.pod(ctx, Default).UID

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = nil })
		s.ready(ctx)
		Expect(s.mounted(ctx, Default)).To(HaveKey("etcd-ca"))
		Expect(s.pod(ctx, Default).UID).To(Equal(uid), "nothing changed")
	})

	It("should not be forced upon a cluster that runs without", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) })
		s.ready(ctx)
		Expect(s.mounted(ctx, Default)).NotTo(HaveKey("etcd-ca"))
		Expect(issued(ctx, Default, s.namespace, "main")).To(BeEmpty())

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = nil })
		s.ready(ctx)
		Expect(s.mounted(ctx, Default)).NotTo(HaveKey("etcd-ca"))
	})

	It("should not be waited for where they are switched off, though the field is pruned and the Secrets that are named are missing", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		tls := &druidv1alpha1.TLSConfig{}
		tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name, tls.ClientTLSSecretRef.Name = "missing-ca", "missing-server", "missing-client"
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.EnableTLS, etcd.Spec.Etcd.ClientUrlTLS = new(false), tls
		})
		s.ready(ctx)
		uid := s.pod(ctx, Default).UID

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = nil })
		s.ready(ctx)
		Expect(s.mounted(ctx, Default)).NotTo(HaveKey("etcd-ca"))
		Expect(s.pod(ctx, Default).UID).To(Equal(uid), "nothing changed")

		By("waiting for them when they are requested")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastOperation.Description).To(ContainSubstring("missing-ca"))
		}).Should(Succeed())
		Expect(s.pod(ctx, Default).UID).To(Equal(uid))
	})

	It("should be switched on and off on demand", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) })
		s.ready(ctx)

		By("switching them on")
		statefulSets.Hold(s.namespace, true)
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		Eventually(func(g Gomega) { g.Expect(s.mounted(ctx, g)).To(HaveKey("etcd-ca")) }).Should(Succeed())
		statefulSets.Hold(s.namespace, false)
		s.ready(ctx)
		Eventually(func(g Gomega) {
			g.Expect(s.connects(ctx, g, s.connection(ctx, g))).To(Succeed())
		}).Should(Succeed())

		By("switching them off")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) })
		s.ready(ctx)
		Expect(s.mounted(ctx, Default)).NotTo(HaveKey("etcd-ca"))
		Eventually(func(g Gomega) { g.Expect(issued(ctx, g, s.namespace, "main")).To(BeEmpty()) }).Should(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "main-connection"}, &corev1.Secret{})).To(MatchError(apierrors.IsNotFound, "is not found"))
	})

	It("should not be removed from the spec when they are provided by the user", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		s.ready(ctx)
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
		s.ready(ctx)
		Expect(s.mounted(ctx, Default)).To(HaveKeyWithValue("etcd-ca", "given-ca"))

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.ClientUrlTLS = nil })
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastErrors).To(ContainElement(HaveField("Description", ContainSubstring("spec.etcd.clientUrlTls"))))
		}).Should(Succeed())
		Expect(s.mounted(ctx, Default)).To(HaveKeyWithValue("etcd-ca", "given-ca"))
	})
})
