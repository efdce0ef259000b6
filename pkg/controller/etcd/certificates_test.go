// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"encoding/pem"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// withUserCertificates creates an Etcd and the Secrets with its certificates.
func withUserCertificates(replicas int32) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		for _, name := range etcdDruidSecrets {
			must(k.Client(nil).Create(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: name}, Data: certificates("first")}))
		}
		create(replicas, fixture.WithTLS())(k)
	}
}

// certificates are the data of a Secret. No component parses them.
func certificates(content string) map[string][]byte {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)})

	return map[string][]byte{"ca.crt": certificate, "tls.crt": certificate, "tls.key": {1}}
}

// renewInPlace changes the content of a Secret that all members mount.
func renewInPlace(content string) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		secret := &corev1.Secret{}
		must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: etcdDruidSecrets[0]}, secret))
		secret.Data = certificates(content)
		must(k.Client(nil).Update(context.Background(), secret))
	}
}

var _ = Describe("Certificates that the user renews in place", func() {
	ctx := context.Background()

	It("restart each member once, without an operation annotation", func() {
		k := newCluster()
		withUserCertificates(3)(k)
		startOperator(k, nil).run()
		succeeded(3, 4)(k)

		By("renewing a private key or another key of the Secret alone")
		secret := &corev1.Secret{}
		must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: etcdDruidSecrets[0]}, secret))
		secret.Data["tls.key"], secret.Data["other.crt"] = []byte{2}, certificates("other")["tls.crt"]
		must(k.Client(nil).Update(ctx, secret))
		startOperator(k, nil).run()
		Expect(k.PodsCreated).To(Equal(4))

		By("renewing the certificate")
		renewInPlace("second")(k)
		startOperator(k, nil).run()
		succeeded(3, 7)(k)
		Expect(k.Violations).To(BeEmpty())

		By("starting the operator again")
		startOperator(k, nil).run()
		Expect(k.PodsCreated).To(Equal(7))

		By("deleting a Secret and creating it again with the same content")
		must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: etcdDruidSecrets[0]}, secret))
		secret.Finalizers = nil
		must(k.Client(nil).Update(ctx, secret))
		must(k.Client(nil).Delete(ctx, secret))
		startOperator(k, nil).run()
		Expect(k.PodsCreated).To(Equal(7))
		must(k.Client(nil).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: etcdDruidSecrets[0]}, Data: certificates("second")}))
		startOperator(k, nil).run()
		Expect(k.PodsCreated).To(Equal(7))

		By("returning to the first certificate")
		renewInPlace("first")(k)
		startOperator(k, nil).run()
		succeeded(3, 10)(k)
	})

	It("restart no member when their record is lost", func() {
		k := newCluster()
		withUserCertificates(1)(k)
		startOperator(k, nil).run()
		dropRecord := func() {
			GinkgoHelper()
			mr := &resourcesv1alpha1.ManagedResource{}
			must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-main"}, mr))
			var err error
			mr.Annotations, err = state.Update(mr.Annotations, func(s *state.State) {
				Expect(s.Accepted.Certificates).NotTo(BeNil())
				s.Accepted.Certificates = nil
			})
			Expect(err).NotTo(HaveOccurred())
			must(k.Client(nil).Update(ctx, mr))
		}
		dropRecord()
		renewInPlace("second")(k)
		startOperator(k, nil).run()
		succeeded(1, 1)(k)

		By("renewing the certificate again")
		renewInPlace("third")(k)
		startOperator(k, nil).run()
		succeeded(1, 2)(k)

		By("losing the record while pods have the annotation")
		dropRecord()
		startOperator(k, nil).run()
		succeeded(1, 2)(k)
		renewInPlace("fourth")(k)
		startOperator(k, nil).run()
		succeeded(1, 3)(k)
	})

	It("keep the members running while a Secret contains no certificate", func() {
		k := newCluster()
		withUserCertificates(1)(k)
		startOperator(k, nil).run()
		renewInPlace("second")(k)
		startOperator(k, nil).run()
		succeeded(1, 2)(k)

		secret := &corev1.Secret{}
		must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: etcdDruidSecrets[0]}, secret))
		secret.Data["ca.crt"] = []byte("no certificate")
		must(k.Client(nil).Update(ctx, secret))
		startOperator(k, nil).run()
		succeeded(1, 2)(k)

		renewInPlace("third")(k)
		startOperator(k, nil).run()
		succeeded(1, 3)(k)
	})
})
