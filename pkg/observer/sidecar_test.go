// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	fakesidecar "github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar/fake"
)

var _ = Describe("Sidecar", func() {
	var (
		ctx   = context.Background()
		etcd  *druidv1alpha1.Etcd
		store *fakesidecar.Store
		pod   etcdcluster.Pod
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "demo"}}
		store = fakesidecar.NewStore(time.Now)
		pod = etcdcluster.Pod{Name: "main-1", Ordinal: 1, IPs: []string{"10.0.0.7"}}
	})

	observe := func(secrets ...*corev1.Secret) *observer.Observer {
		builder := fakeclient.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
		for _, secret := range secrets {
			builder = builder.WithObjects(secret)
		}

		return &observer.Observer{APIReader: builder.Build(), Sidecars: store}
	}
	secret := func(data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "backup-ca", Namespace: "demo"}, Data: data}
	}

	It("is reached at the pod's address", func() {
		_, err := observe().Sidecar(ctx, etcd, pod)
		Expect(err).NotTo(HaveOccurred())
		Expect(store.Targets()).To(Equal([]sidecar.Target{{Address: "10.0.0.7:8080", ServerName: "main-local"}}))
	})

	It("is trusted by the CA that its pod mounts, also where the spec says something new", func() {
		pod.TLS = etcdcluster.MountedTLS{BackupCA: "backup-ca", BackupServer: "backup-server"}
		etcd.Spec.Backup.Port = new(int32(9000))
		_, err := observe(secret(map[string][]byte{"ca.crt": []byte("old"), "bundle.crt": []byte("bundle")})).Sidecar(ctx, etcd, pod)
		Expect(err).NotTo(HaveOccurred())
		Expect(store.Targets()).To(Equal([]sidecar.Target{{Address: "10.0.0.7:9000", ServerName: "main-local", CA: []byte("bundle")}}))
	})

	It("is trusted by the key that the spec names", func() {
		pod.TLS = etcdcluster.MountedTLS{BackupCA: "backup-ca", BackupServer: "backup-server"}
		etcd.Spec.Backup.TLS = &druidv1alpha1.TLSConfig{TLSCASecretRef: druidv1alpha1.SecretReference{
			SecretReference: corev1.SecretReference{Name: "backup-ca"}, DataKey: new("mine.crt"),
		}}
		_, err := observe(secret(map[string][]byte{"mine.crt": []byte("mine"), "bundle.crt": []byte("bundle")})).Sidecar(ctx, etcd, pod)
		Expect(err).NotTo(HaveOccurred())
		Expect(store.Targets()[0].CA).To(BeEquivalentTo("mine"))
	})

	It("cannot be reached without its CA", func() {
		pod.TLS = etcdcluster.MountedTLS{BackupCA: "backup-ca", BackupServer: "backup-server"}
		_, err := observe().Sidecar(ctx, etcd, pod)
		Expect(err).To(MatchError(`connecting to the sidecar in pod main-1: reading Secret backup-ca: secrets "backup-ca" not found`))
		Expect(store.Targets()).To(BeEmpty())
	})

	It("cannot be reached before its pod has an address", func() {
		pod.IPs = nil
		_, err := observe().Sidecar(ctx, etcd, pod)
		Expect(err).To(MatchError("connecting to the sidecar in pod main-1: it has no address"))
	})
})
