// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

func withName(name string) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) { etcd.Name = name }
}

// expectRejected waits until the operator rejects the Etcd with a message that contains these parts.
func expectRejected(ctx context.Context, s *testEtcd, parts ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("Reconciled", "False", "InvalidSpec", parts...))
	}).Should(Succeed())
}

func expectDeleted(ctx context.Context, s *testEtcd) {
	GinkgoHelper()
	Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
	Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), &druidv1alpha1.Etcd{}) }).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
}

// keepServiceAccount recreates a ServiceAccount until the test ends, like Kubernetes does with the ServiceAccount default.
func keepServiceAccount(namespace, name string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			if err := env.Client.Create(ctx, account); ctx.Err() == nil {
				Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
			}
			return false, nil
		})
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
}

var _ = Describe("An object of another owner with a name that an Etcd needs", func() {
	It("should be neither changed nor deleted if it is the ServiceAccount default", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "etcd")
		keepServiceAccount(namespace, "default")
		account := &corev1.ServiceAccount{}
		Eventually(func() error {
			return env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, account)
		}).Should(Succeed())

		s := &testEtcd{namespace: namespace}
		s.create(ctx, withName("default"))
		expectRejected(ctx, s, "ServiceAccount default in namespace "+namespace+" exists and does not belong to this Etcd", "create the Etcd with another name")
		expectDeleted(ctx, s)

		after := &corev1.ServiceAccount{}
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(account), after)).To(Succeed())
		Expect(after.UID).To(Equal(account.UID), "the account was not deleted")
		Expect(after.ResourceVersion).To(Equal(account.ResourceVersion), "nor changed")
	}, SpecTimeout(2*time.Minute))

	It("should not block the deletion of an Etcd if another controller keeps recreating it", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		s.create(ctx, withName("tenant"))
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "tenant"}}
		Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(account), account) }).Should(Succeed())
		keepServiceAccount(s.namespace, "tenant")
		expectDeleted(ctx, s)
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(account), account)).To(Succeed())
			g.Expect(account.OwnerReferences).To(BeEmpty(), "the recreated ServiceAccount does not belong to the Etcd")
		}).Should(Succeed())
	}, SpecTimeout(2*time.Minute))

	It("should no longer block the Etcd after its deletion", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "main-client"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		Expect(env.Client.Create(ctx, service)).To(Succeed())
		s.create(ctx)
		expectRejected(ctx, s, "Service main-client in namespace "+s.namespace)
		Expect(env.Client.Delete(ctx, service)).To(Succeed())
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "gardener.cloud/operation", "reconcile")
		})
		s.awaitReady(ctx)
	}, SpecTimeout(2*time.Minute))

	It("should not be changed if it is the Lease of an Etcd whose members have the same names", func(ctx SpecContext) {
		first := create(ctx, withName("a"), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.MemberNamePrefix = new("p")
			etcd.Spec.Backup.Image = new("registry.example.com/etcd-backup-restore:v0.43.0") // older versions do not know the prefix
		})
		first.awaitReady(ctx)
		lease := &coordinationv1.Lease{}
		first.get(ctx, Default, lease, "p-a-0")

		second := &testEtcd{namespace: first.namespace}
		second.create(ctx, withName("p-a"))
		expectRejected(ctx, second, "Lease p-a-0 in namespace "+first.namespace+" exists and does not belong to this Etcd")
		expectUnchanged(ctx, lease)
		expectDeleted(ctx, second)
		expectUnchanged(ctx, lease)
		Expect(metav1.IsControlledBy(lease, first.etcd)).To(BeTrue())
	}, SpecTimeout(2*time.Minute))

	It("should not be deleted if it is a PersistentVolumeClaim", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "main-main-0", Labels: map[string]string{"app": "something-else"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		Expect(env.Client.Create(ctx, claim)).To(Succeed())
		s.create(ctx, deleteAll)
		expectRejected(ctx, s, "PersistentVolumeClaim main-main-0 in namespace "+s.namespace)
		expectDeleted(ctx, s)
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
		Expect(claim.DeletionTimestamp).To(BeNil())
	}, SpecTimeout(2*time.Minute))

	It("should not be deleted if it is the PersistentVolumeClaim of a member that the Etcd never had", func(ctx SpecContext) {
		s := create(ctx, deleteAll)
		s.awaitReady(ctx)
		claim := &corev1.PersistentVolumeClaim{}
		s.get(ctx, Default, claim, "main-main-0")
		foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "main-main-1", Labels: map[string]string{"app.kubernetes.io/part-of": "main"}}, Spec: *claim.Spec.DeepCopy()}
		foreign.Spec.VolumeName = ""
		Expect(env.Client.Create(ctx, foreign)).To(Succeed())
		expectDeleted(ctx, s)
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
		Expect(foreign.DeletionTimestamp).To(BeNil())
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("A Local store", func() {
	It("should be rejected in a directory that the configuration of the operator does not list", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "backup"}, Data: map[string][]byte{"hostPath": []byte("/var/lib")}}
		Expect(env.Client.Create(ctx, secret)).To(Succeed())
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
				Provider: new(druidv1alpha1.StorageProvider("Local")), Container: new("victim"), Prefix: "p",
				SecretRef: &corev1.SecretReference{Name: "backup"},
			}
		})
		Eventually(func(g Gomega) {
			etcd := s.read(ctx, g)
			g.Expect(etcd.Status.Conditions).To(haveCondition("StoreResolved", "False", "StoreInvalid",
				`key hostPath of Secret backup names directory "/var/lib"`, "localStore.roots of the operator's configuration"))
			g.Expect(etcd.Status.LastErrors).To(ConsistOf(HaveField("Code", BeEquivalentTo("ERR_RESOLVE_STORE"))))
		}).Should(Succeed())
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "druid-main"}, newForeignManagedResource(s.namespace))).
			To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	}, SpecTimeout(time.Minute))
})
