// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardenlet_test

import (
	"context"
	"time"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controlPlane is the namespace of a shoot with its BackupEntry.
type controlPlane struct {
	namespace, entry string
}

// newControlPlane creates the namespace and the BackupEntry like gardenlet, and waits for the Secret of the BackupEntry.
func newControlPlane(ctx context.Context) *controlPlane {
	GinkgoHelper()
	p := &controlPlane{namespace: env.Namespace(ctx, "shoot--foo")}
	p.entry = p.namespace + "--" + string(uuid.NewUUID())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "entry-" + p.entry}}
	Expect(env.Client.Create(ctx, secret)).To(Succeed())
	Expect(env.Client.Create(ctx, &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: p.entry}, Spec: extensionsv1alpha1.BackupEntrySpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "local", BucketName: "bucket",
		SecretRef: corev1.SecretReference{Namespace: "garden", Name: secret.Name},
	}})).To(Succeed())
	Eventually(func() error {
		return env.Client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: "etcd-backup"}, &corev1.Secret{})
	}).Should(Succeed())
	return p
}

// secrets returns a secrets manager of gardenlet with generated CAs. The peer CA is rotated at rotatedAt. Zero: it is not rotated.
func (p *controlPlane) secrets(ctx context.Context, rotatedAt time.Time) secretsmanager.Interface {
	GinkgoHelper()
	times := map[string]time.Time{}
	if !rotatedAt.IsZero() {
		times["ca-etcd-peer"] = rotatedAt
	}
	manager, err := secretsmanager.New(ctx, logr.Discard(), clock.RealClock{}, seed, "gardenlet", secretsmanager.WithNamespaces(p.namespace), secretsmanager.WithSecretNamesToTimes(times))
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"ca-etcd", "ca-etcd-peer"} {
		_, err := manager.Generate(ctx, &secretsutils.CertificateSecretConfig{Name: name, CommonName: name, CertType: secretsutils.CACert}, secretsmanager.Persist(), secretsmanager.Rotate(secretsmanager.KeepOld))
		Expect(err).NotTo(HaveOccurred())
	}
	return manager
}

func (p *controlPlane) get(ctx context.Context, g Gomega, obj client.Object, name string) {
	g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, obj)).To(Succeed())
}

// mounted returns the names of the Secrets that the pod mounts, by volume.
func (p *controlPlane) mounted(ctx context.Context, g Gomega, podName string) map[string]string {
	pod := &corev1.Pod{}
	p.get(ctx, g, pod, podName)
	mounted := map[string]string{}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret != nil {
			mounted[volume.Name] = volume.Secret.SecretName
		}
	}
	return mounted
}

// takeSnapshot simulates the sidecar, which records a snapshot on the lease. Without a snapshot, the operator does not restart
// a member.
func (p *controlPlane) takeSnapshot(ctx context.Context, etcdName string) {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	p.get(ctx, Default, lease, etcdName+"-full-snap")
	before := lease.DeepCopy()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("1"), &metav1.MicroTime{Time: time.Now()}
	Expect(env.Client.Patch(ctx, lease, client.MergeFrom(before))).To(Succeed())
}
