// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

func keyOf(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// watch calls check repeatedly until check fails or stop is closed. It returns the error of check.
func watch(stop <-chan struct{}, check func() error) error {
	for {
		select {
		case <-stop:
			return nil
		default:
			if err := check(); err != nil {
				return err
			}
		}
	}
}

var _ = Describe("The store", func() {
	withStore := func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{} }

	It("should be resolved from the BackupEntry in a namespace with a Cluster", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.writeCluster(ctx, "", nil)

		By("waiting for the BackupEntry")
		s.create(ctx, withStore)
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("StoreResolved", "False", "BackupEntryNotFound", "has a Cluster, and no BackupEntry yet"))
		}).Should(Succeed())
		Expect(s.read(ctx, Default).Status.LastErrors).To(BeEmpty())

		By("continuing when the BackupEntry is reconciled")
		entry := s.writeEntry(ctx)
		s.awaitReady(ctx)
		Expect(s.read(ctx, Default).Status.Conditions).To(haveCondition("StoreResolved", "True", "StoreResolved", entry+"/main", "Secret etcd-backup"))
		Expect(s.recorded(ctx, "store")(Default)).To(MatchJSON(`{"provider":"Local","container":"bucket-of-` + s.namespace + `","prefix":"` + entry + `/main","hostPath":"/var/buckets","secretName":"etcd-backup"}`))
		statefulSet := &appsv1.StatefulSet{}
		s.get(ctx, Default, statefulSet, "main")
		Expect(statefulSet.Spec.Template.Spec.Volumes).To(ContainElement(HaveField("HostPath", HaveValue(HaveField("Path", "/var/buckets/bucket-of-"+s.namespace)))))

		By("not restarting etcd if the credentials of the bucket are rotated")
		uid := s.pod(ctx, Default).UID
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "entry-" + entry}}
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		before := secret.DeepCopy()
		secret.Data = map[string][]byte{"password": []byte("new")}
		Expect(env.Client.Patch(ctx, secret, client.MergeFrom(before))).To(Succeed())
		secret = &corev1.Secret{}
		Eventually(func(g Gomega) {
			s.get(ctx, g, secret, "etcd-backup")
			g.Expect(secret.Data).To(HaveKeyWithValue("password", []byte("new")))
		}).Should(Succeed())
		s.update(ctx, func(*druidv1alpha1.Etcd) {})
		s.awaitReady(ctx)
		Expect(s.pod(ctx, Default).UID).To(Equal(uid))

		By("rejecting another location")
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store.Provider, etcd.Spec.Backup.Store.Container = new(druidv1alpha1.StorageProvider("local")), new("elsewhere")
			etcd.Spec.Backup.Store.SecretRef = &corev1.SecretReference{Name: "etcd-backup"}
		})
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("StoreResolved", "False", "StoreChanged", "snapshots went to Local"))
		}).Should(Succeed())
		Expect(s.pod(ctx, Default).UID).To(Equal(uid))
	})

	It("should be resolved from a referenced BackupEntry", func(ctx SpecContext) {
		s, other := newTestEtcd(ctx), newTestEtcd(ctx)
		foreign := other.writeEntry(ctx)
		s.create(ctx, withStore, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store.BackupEntryRef = &druidv1alpha1.BackupEntryReference{Name: foreign}
		})
		By("rejecting a BackupEntry of another namespace")
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("StoreResolved", "False", "StoreInvalid", "are in namespace "+other.namespace))
		}).Should(Succeed())

		entry := s.writeEntry(ctx)
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store.BackupEntryRef.Name = entry })
		s.awaitReady(ctx)
		Expect(s.read(ctx, Default).Status.Conditions).To(haveCondition("StoreResolved", "True", "StoreResolved", entry+"/main"))
	})

	It("should be used with a new Secret of the BackupEntry even if the newest generation is rejected", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		s.writeCluster(ctx, "", nil)
		entry := s.writeEntry(ctx)
		s.create(ctx, withStore)
		s.awaitReady(ctx)
		Expect(s.recorded(ctx, "store")(Default)).To(ContainSubstring(`"secretName":"etcd-backup"`))
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.ImageVersion = new("v2") })
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("Reconciled", "False", "InvalidSpec", "spec.etcd.imageRepository"))
		}).Should(Succeed())

		current, published := &corev1.Secret{}, &corev1.Secret{}
		s.get(ctx, Default, current, "etcd-backup")
		published.Namespace, published.Name, published.Annotations, published.Data = s.namespace, "published", current.Annotations, current.Data
		Expect(env.Client.Create(ctx, published)).To(Succeed())
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"providerStatus":{"secretRef":{"namespace":"`+s.namespace+`","name":"published"}}}}`))
		Expect(env.Client.Status().Patch(ctx, &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: entry}}, patch)).To(Succeed())

		Eventually(s.recorded(ctx, "store")).Should(ContainSubstring(`"secretName":"published"`))
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(And(
				haveCondition("StoreResolved", "True", "StoreResolved", "Secret published"), haveCondition("Reconciled", "False", "InvalidSpec")))
		}).Should(Succeed())
	})

	It("should be resolved from the prefix that gardenlet sets", func(ctx SpecContext) {
		s := newTestEtcd(ctx)
		entry := s.writeEntry(ctx)
		s.create(ctx, withStore, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store.Prefix = entry + "/etcd-main" })
		s.awaitReady(ctx)
		Expect(s.read(ctx, Default).Status.Conditions).To(haveCondition("StoreResolved", "True", "StoreResolved", entry+"/etcd-main"))
	})
})
