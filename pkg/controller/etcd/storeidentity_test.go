// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The identity of the store", func() {
	var (
		ctx   = context.Background()
		k     *kube.Cluster
		drive *operator
	)

	const annotation = "etcd-druid.extensions.gardener.cloud/store"

	get := func(obj client.Object, name string) {
		GinkgoHelper()
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, obj)).To(Succeed())
	}
	recorded := func() map[string]any {
		GinkgoHelper()
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		record := map[string]any{}
		Expect(json.Unmarshal([]byte(mr.Annotations[annotation]), &record)).To(Succeed())
		return record
	}
	leaseStores := func() []string {
		var stores []string
		for _, name := range []string{"main-full-snap", "main-delta-snap"} {
			lease := &coordinationv1.Lease{}
			get(lease, name)
			stores = append(stores, lease.Annotations[annotation])
		}
		return slices.Compact(stores)
	}
	// renew writes the Leases like the sidecar after snapshots.
	renew := func(names ...string) {
		for _, name := range names {
			lease := &coordinationv1.Lease{}
			get(lease, name)
			lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("7"), &metav1.MicroTime{Time: k.Clock.Now()}
			must(k.Client(nil).Update(ctx, lease))
		}
	}
	changeSecret := func(key, value string) {
		secret := &corev1.Secret{}
		get(secret, "credentials")
		secret.Data[key] = []byte(value)
		must(k.Client(nil).Update(ctx, secret))
	}
	tasks := func() []string {
		list := &druidv1alpha1.EtcdOpsTaskList{}
		must(k.Client(nil).List(ctx, list))
		var names []string
		for _, task := range list.Items {
			names = append(names, task.Name)
		}
		return names
	}
	// reconcile lets the operator reconcile a few times, without the sidecars of the cluster.
	reconcile := func() {
		for range 5 {
			drive.reconcileOnce()
			k.Clock.Step(time.Second)
		}
	}
	old, complete := `S3 container "c" prefix "demo/main"`, `S3 container "c" prefix "demo/main" endpoint "a.example.org"`

	BeforeEach(func() {
		k = newCluster()
		must(k.Client(nil).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "credentials"}, Data: map[string][]byte{
			"endpoint": []byte("https://a.example.org"), "accessKeyID": []byte("key-1"), "secretAccessKey": []byte("geheim"), "region": []byte("r"),
		}}))
		create(1, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
				Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("c"), Prefix: "demo/main", SecretRef: &corev1.SecretReference{Name: "credentials"},
			}
		})(k)
		drive = startOperator(k, nil)
		drive.run()
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
		renew("main-full-snap", "main-delta-snap")
		reconcile()
	})

	It("is recorded with the first full snapshot, and without secret values", func() {
		Expect(recorded()).To(And(HaveKeyWithValue("endpoint", "a.example.org"), HaveKeyWithValue("verifiedAt", HavePrefix("2026-01-01T12:0"))))
		Expect(fmt.Sprint(recorded())).NotTo(Or(ContainSubstring("geheim"), ContainSubstring("key-1")))
		Expect(leaseStores()).To(Equal([]string{complete}))
	})

	It("is completed once when it is known", func() {
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		mr.Annotations[annotation] = `{"provider":"S3","container":"c","prefix":"demo/main","secretName":"credentials"}`
		must(k.Client(nil).Update(ctx, mr))
		for _, name := range []string{"main-full-snap", "main-delta-snap"} {
			lease := &coordinationv1.Lease{}
			get(lease, name)
			lease.Annotations[annotation] = old
			must(k.Client(nil).Update(ctx, lease))
		}
		reconcile()
		Expect(recorded()).To(And(HaveKeyWithValue("endpoint", "a.example.org"), HaveKey("verifiedAt"), Not(HaveKey("changedAt"))))
		Expect(leaseStores()).To(Equal([]string{complete}))
		Expect(tasks()).To(BeEmpty())

		before := k.State()
		reconcile()
		Expect(k.State()).To(Equal(before), "it writes nothing more")
	})

	It("does not change with the credentials", func() {
		before := recorded()
		changeSecret("accessKeyID", "key-2")
		reconcile()
		Expect(recorded()).To(Equal(before))
		Expect(leaseStores()).To(Equal([]string{complete}))
		Expect(tasks()).To(BeEmpty())
	})

	It("does not change with the spelling", func() {
		changeSecret("endpoint", "http://minio.demo.svc.cluster.local.:9000")
		reconcile()
		before := recorded()
		Expect(before).To(HaveKeyWithValue("endpoint", "minio.demo.svc:9000"))
		changeSecret("endpoint", "http://minio.demo.svc:9000")
		reconcile()
		Expect(recorded()).To(Equal(before))
	})

	It("stays recorded while the Secret cannot be read", func() {
		before := recorded()
		changeSecret("endpoint", "https://%zz")
		reconcile()
		Expect(recorded()).To(Equal(before))
	})

	It("follows another endpoint in the Secret: the snapshots in the other store do not count, and a full snapshot is taken", func() {
		pods := k.PodsCreated
		changeSecret("endpoint", "https://b.example.org")
		reconcile()
		changed := recorded()
		Expect(changed).To(And(HaveKeyWithValue("endpoint", "b.example.org"), HaveKey("changedAt"), Not(HaveKey("verifiedAt"))))
		Expect(leaseStores()).To(Equal([]string{complete}), "they are in the other store")
		Expect(tasks()).To(BeEmpty(), "the sidecars may not have read the Secret yet")
		Expect(drive.due).To(BeTemporally("<=", k.Clock.Now().Add(time.Minute)), "no watch reports that they have")

		By("waiting until the kubelet has updated the mounted Secret")
		k.Clock.Step(5 * time.Minute)
		reconcile()
		at, err := time.Parse(time.RFC3339, changed["changedAt"].(string))
		Expect(err).NotTo(HaveOccurred())
		Expect(tasks()).To(Equal([]string{fmt.Sprintf("main-store-%d", at.Unix())}))
		Expect(leaseStores()).To(Equal([]string{complete}), "until there is a snapshot in this store")

		By("taking the snapshot")
		renew("main-full-snap")
		reconcile()
		Expect(leaseStores()).To(Equal([]string{`S3 container "c" prefix "demo/main" endpoint "b.example.org"`, complete}))
		renew("main-delta-snap")
		reconcile()
		Expect(leaseStores()).To(Equal([]string{`S3 container "c" prefix "demo/main" endpoint "b.example.org"`}))
		Expect(recorded()).To(HaveKey("verifiedAt"))
		Expect(k.PodsCreated).To(Equal(pods), "no pod is replaced")
		Expect(tasks()).To(HaveLen(1))
		Expect(drive.due.IsZero() || drive.due.Sub(k.Clock.Now()) > time.Hour).To(BeTrue(), "nothing is left to do")
	})

	It("takes a full snapshot after another endpoint was corrected, because delta snapshots may be there", func() {
		changeSecret("endpoint", "https://typo.example.org")
		reconcile()
		k.Clock.Step(time.Minute)
		renew("main-delta-snap")
		changeSecret("endpoint", "https://a.example.org")
		reconcile()
		at, err := time.Parse(time.RFC3339, recorded()["changedAt"].(string))
		Expect(err).NotTo(HaveOccurred())
		Expect(leaseStores()).To(Equal([]string{complete}))
		Expect(drive.due).To(BeTemporally("<=", k.Clock.Now().Add(time.Minute)), "no watch reports when the sidecars use it")

		k.Clock.Step(5 * time.Minute)
		reconcile()
		Expect(tasks()).To(Equal([]string{fmt.Sprintf("main-store-%d", at.Unix())}))
		Expect(recorded()).NotTo(HaveKey("verifiedAt"))

		renew("main-full-snap")
		reconcile()
		Expect(recorded()).To(HaveKey("verifiedAt"))
		Expect(tasks()).To(HaveLen(1))
	})

	It("follows another endpoint in the spec", func() {
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store.EndpointOverride = new("https://b.example.org") })(k)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
		Expect(recorded()).To(HaveKeyWithValue("endpoint", "b.example.org"))
		Expect(leaseStores()).To(Equal([]string{`S3 container "c" prefix "demo/main" endpoint "b.example.org"`}))
		Expect(tasks()).To(HaveLen(1))
	})

	It("waits ten seconds for an object that has just begun to use the store", func() {
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		delete(mr.Annotations, annotation)
		must(k.Client(nil).Update(ctx, mr))
		drive.reconciler.Stores = calls.NewStoreReservations(k.Clock)
		Expect(drive.reconciler.Stores.Reserve(calls.StoreUser{Key: client.ObjectKey{Namespace: "tenant", Name: "other"}},
			state.Store{Provider: "S3", Container: "c", Prefix: "demo/main", Endpoint: "a.example.org"})).To(BeTrue())
		update(func(etcd *druidv1alpha1.Etcd) {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
		})(k)
		drive.reconcileOnce()
		Expect(k.EtcdObject().Status.LastOperation.Description).To(ContainSubstring("another Etcd or EtcdCopyBackupsTask has just begun to use"))
		Expect(drive.due.Sub(k.Clock.Now())).To(Equal(10 * time.Second))
	})

	It("waits ten seconds for an object that has just changed its endpoint to the same store", func() {
		reservations := calls.NewStoreReservations(k.Clock)
		drive.reconciler.Stores = reservations
		other := calls.StoreUser{Key: client.ObjectKey{Namespace: "tenant", Name: "other"}}
		Expect(reservations.Reserve(other, state.Store{Provider: "S3", Container: "c", Prefix: "demo/main", Endpoint: "b.example.org"})).To(BeTrue())
		changeSecret("endpoint", "https://b.example.org")
		update(func(etcd *druidv1alpha1.Etcd) {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
		})(k)
		drive.reconcileOnce()
		Expect(recorded()).To(HaveKeyWithValue("endpoint", "a.example.org"))
		Expect(k.EtcdObject().Status.LastOperation.Description).To(ContainSubstring("another Etcd or EtcdCopyBackupsTask has just begun to use"))
		Expect(drive.due.Sub(k.Clock.Now())).To(Equal(10 * time.Second))

		By("ending the use by the other object")
		reservations.Release(other)
		reconcile()
		Expect(recorded()).To(HaveKeyWithValue("endpoint", "b.example.org"))
		Expect(reservations.Reserve(other, state.Store{Provider: "S3", Container: "c", Prefix: "demo/main", Endpoint: "b.example.org"})).To(BeFalse(), "this one reserves it too")
	})

	It("is reserved before the record is completed", func() {
		mr := &resourcesv1alpha1.ManagedResource{}
		get(mr, "druid-main")
		mr.Annotations[annotation] = `{"provider":"S3","container":"c","prefix":"demo/main","secretName":"credentials"}`
		must(k.Client(nil).Update(ctx, mr))
		drive.reconciler.Stores = calls.NewStoreReservations(k.Clock)
		reconcile()
		Expect(recorded()).To(HaveKeyWithValue("endpoint", "a.example.org"))
		Expect(drive.reconciler.Stores.Reserve(calls.StoreUser{Key: client.ObjectKey{Namespace: "tenant", Name: "other"}},
			state.Store{Provider: "S3", Container: "c", Prefix: "demo/main", Endpoint: "a.example.org"})).To(BeFalse())
	})

	It("reserves nothing while it stays", func() {
		reservations := calls.NewStoreReservations(k.Clock)
		drive.reconciler.Stores = reservations
		changeSecret("accessKeyID", "key-2")
		reconcile()
		Expect(reservations.Reserve(calls.StoreUser{Key: client.ObjectKey{Namespace: "tenant", Name: "other"}},
			state.Store{Provider: "S3", Container: "c", Prefix: "demo/main", Endpoint: "a.example.org"})).To(BeTrue(), "the caches show its record")
	})

	It("does not allow another container", func() {
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.Store.Container = new("d") })(k)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(recorded()).To(HaveKeyWithValue("container", "c"))
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(HaveField("Reason", "StoreChanged")))
	})
})
