// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"maps"
	"slices"
	"sync"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// userCertificates are the content of all Secrets of withUserCertificates.
var userCertificates = sync.OnceValue(func() map[string][]byte { return fixture.Certificates("main", "demo") })

// withUserCertificates creates an Etcd and the Secrets with its certificates.
func withUserCertificates(replicas int32) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		for _, name := range etcdDruidSecrets {
			must(k.Client(nil).Create(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: name}, Data: userCertificates()}))
		}
		create(replicas, fixture.WithTLS())(k)
	}
}

// otherCAs are CAs by their names.
var otherCAs = map[string][]byte{"first": nil}

// withCA returns userCertificates, with another CA in the bundle.
func withCA(name string) map[string][]byte {
	if _, found := otherCAs[name]; !found {
		otherCAs[name] = fixture.NewAuthority(name, fixture.Validity{}).PEM()
	}
	data := maps.Clone(userCertificates())
	data["ca.crt"] = slices.Concat(data["ca.crt"], otherCAs[name])

	return data
}

// renewInPlace changes the content of a Secret that all members mount.
func renewInPlace(ca string) func(*kube.Cluster) { return replaceData(withCA(ca), etcdDruidSecrets[0]) }

// replaceData replaces the data of Secrets.
func replaceData(data map[string][]byte, names ...string) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		for _, name := range names {
			secret := &corev1.Secret{}
			must(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: name}, secret))
			secret.Data = data
			must(k.Client(nil).Update(context.Background(), secret))
		}
	}
}

var _ = Describe("Certificates that do not verify", func() {
	// progressing expects the reason why the newest generation is not rolled out.
	progressing := func(k *kube.Cluster, parts ...string) {
		GinkgoHelper()
		for _, part := range parts {
			Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(
				HaveField("Type", BeEquivalentTo("Reconciled")), HaveField("Message", ContainSubstring(part)))))
		}
	}

	DescribeTable("restart no member until they verify", func(replicas int) {
		k := newCluster()
		withUserCertificates(int32(replicas))(k)
		startOperator(k, nil).run()
		created := k.PodsCreated

		By("replacing the CA with its key, before the certificates are renewed")
		renewed := fixture.Certificates("main", "demo")
		replaceData(renewed, "client-ca")(k)
		startOperator(k, nil).run()
		succeeded(replicas, created)(k)

		By("changing the pods")
		update(relabel)(k)
		startOperator(k, nil).run()
		Expect(k.PodsCreated).To(Equal(created))
		progressing(k, "tls.crt of Secret client-server does not verify with ca.crt of Secret client-ca", "its issuer is CN=main")

		By("renewing the certificates")
		replaceData(renewed, "client-server", "client-client")(k)
		startOperator(k, nil).run()
		succeeded(replicas, created+replicas)(k)
	},
		Entry("with one member", 1),
		Entry("with three members", 3),
	)

	It("are not rolled out with a new reference", func() {
		k := newCluster()
		withUserCertificates(3)(k)
		startOperator(k, nil).run()
		created := k.PodsCreated
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "other"}, Data: fixture.NewAuthority("other", fixture.Validity{}).Leaf(fixture.Validity{}, "main-local")}
		must(k.Client(nil).Create(context.Background(), other))
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.ClientUrlTLS.ServerTLSSecretRef.Name = "other" })(k)
		startOperator(k, nil).run()
		Expect(k.PodsCreated).To(Equal(created))
		progressing(k, "tls.crt of Secret other does not verify with ca.crt of Secret client-ca", "its issuer is CN=other")

		By("rolling it out when the Secret has another content")
		replaceData(userCertificates(), "other")(k)
		startOperator(k, nil).run()
		succeeded(3, created+3)(k)
	})
})

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
		secret.Data["tls.key"], secret.Data["other.crt"] = []byte{2}, fixture.NewAuthority("other", fixture.Validity{}).PEM()
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
		must(k.Client(nil).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: etcdDruidSecrets[0]}, Data: withCA("second")}))
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
