// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

var _ = Describe("ClientTLS", func() {
	var (
		etcd *druidv1alpha1.Etcd
		ca   *corev1.Secret
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "demo"}}
		ca = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ca", Namespace: "demo"}, Data: map[string][]byte{
			"mine.crt": []byte("mine"), "bundle.crt": []byte("bundle"), "ca.crt": []byte("ca"),
		}}
	})

	read := func(secrets etcdcluster.ClientSecrets) (etcdclient.TLS, error) {
		pair := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "client", Namespace: "demo"}, Data: map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("key")}}
		o := &observer.Observer{APIReader: fakeclient.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(ca, pair).Build()}

		return o.ClientTLS(context.Background(), etcd, secrets)
	}

	It("takes the bundle of a rotation before the CA, and the client's certificate", func() {
		Expect(read(etcdcluster.ClientSecrets{CA: "ca", Client: "client"})).To(Equal(etcdclient.TLS{CA: []byte("bundle"), Certificate: []byte("certificate"), Key: []byte("key")}))
	})

	It("takes the CA under the key that the spec names", func() {
		etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{TLSCASecretRef: druidv1alpha1.SecretReference{
			SecretReference: corev1.SecretReference{Name: "ca"}, DataKey: new("mine.crt"),
		}}
		Expect(read(etcdcluster.ClientSecrets{CA: "ca"})).To(Equal(etcdclient.TLS{CA: []byte("mine")}))
	})

	It("names the Secret without a CA", func() {
		ca.Data = nil
		_, err := read(etcdcluster.ClientSecrets{CA: "ca"})
		Expect(err).To(MatchError(ContainSubstring("secret ca has none of the keys")))
	})

	It("names the Secret that is missing", func() {
		_, err := read(etcdcluster.ClientSecrets{CA: "ca", Client: "gone"})
		Expect(err).To(MatchError(ContainSubstring("reading Secret gone")))
	})
})
