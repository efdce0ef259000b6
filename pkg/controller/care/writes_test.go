// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// members connects to the members of a fake cluster.
type members struct{ *fake.Cluster }

func (m members) Member(ctx context.Context, _ *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error) {
	return m.Connect(ctx, m.target(pod))
}

func (m members) target(pod etcdcluster.Pod) etcdclient.Target {
	return etcdclient.Target{Address: pod.Name}
}

// recordingMembers are members that call onAllow before they accept writes again.
type recordingMembers struct {
	members
	onAllow func()
}

func (m recordingMembers) Member(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error) {
	inner, err := m.members.Member(ctx, etcd, pod)

	return recordingMember{inner, m.onAllow}, err
}

type recordingMember struct {
	etcdclient.Client
	onAllow func()
}

func (m recordingMember) AllowWrites(ctx context.Context) error {
	m.onAllow()

	return m.Client.AllowWrites(ctx)
}

var _ = Describe("A restored cluster that rejects writes", func() {
	var (
		etcd    *druidv1alpha1.Etcd
		lease   *coordinationv1.Lease
		cluster *fake.Cluster
		reader  client.Client
		c       client.Client
		r       *care.Reconciler
	)

	BeforeEach(func() {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd = &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.UID, etcd.Spec.Replicas = "demo", "main", "etcd-uid", 1
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "demo--main"}
		cluster = fake.NewCluster(7)
		cluster.AddMember(1, "main-0", "main-0")
		cluster.RejectWrites()
		Expect(coordinationv1.AddToScheme(scheme)).To(Succeed())
		lease = &coordinationv1.Lease{}
		lease.Namespace, lease.Name, lease.UID = "demo", "main-full-snap", "lease-uid"
		lease.Labels, lease.Annotations = map[string]string{"role": "main"}, map[string]string{"etcd-druid.extensions.gardener.cloud/store": "here"}
		lease.OwnerReferences = []metav1.OwnerReference{{Kind: "Etcd", Name: "main", UID: "etcd-uid"}}
		lease.Spec.HolderIdentity = new("42")
		c = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd, lease).WithStatusSubresource(etcd).Build()
		reader = c
		r = &care.Reconciler{
			Client: c, Clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), Recorder: events.NewFakeRecorder(100),
			Config: care.Config{SyncPeriod: time.Minute}, Members: members{cluster}, Observer: &observed{etcdcluster.Observation{
				Pods:              []etcdcluster.Pod{{Name: "main-0", Ready: true}},
				FullSnapshotLease: etcdcluster.Lease{Exists: true, Name: "main-full-snap", UID: "lease-uid", Holder: "42"},
				Etcd: etcdcluster.EtcdResponses{
					Queried: true, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1}}, Alarms: []etcdcluster.Alarm{etcdcluster.WriteRejection},
				},
			}},
		}
	})
	reconcileOnce := func(ctx context.Context) {
		GinkgoHelper()
		r.Reader = reader
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
	}

	// reconcileFails reconciles once, which returns an error with the message.
	reconcileFails := func(ctx context.Context, message string) {
		GinkgoHelper()
		r.Reader = reader
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).To(MatchError(ContainSubstring(message)))
	}
	// refuse makes the API server refuse to delete, or to create, the Lease.
	refuse := func(deletes bool) {
		funcs := interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("unavailable")
		}}
		if deletes {
			funcs = interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return errors.New("unavailable")
			}}
		}
		r.Client = interceptor.NewClient(c.(client.WithWatch), funcs)
	}

	expectEmptyLease := func(ctx context.Context) {
		GinkgoHelper()
		Expect(c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		Expect(lease.UID).NotTo(BeEquivalentTo("lease-uid"))
		Expect(lease.Spec).To(BeZero())
		Expect(lease.Labels).To(HaveKeyWithValue("role", "main"))
		Expect(lease.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/store", "here"))
		Expect(lease.OwnerReferences).To(HaveLen(1))
	}

	It("accepts writes again, and the Lease of the full snapshot with the rejection is reset, so that a new one is requested", func(ctx SpecContext) {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/run-task", "compaction")
		Expect(c.Update(ctx, etcd)).To(Succeed())
		reconcileOnce(ctx)
		Expect(cluster.RejectsWrites()).To(BeFalse())
		expectEmptyLease(ctx)
		Expect(r.Recorder.(*events.FakeRecorder).Events).To(Receive(Equal("Normal WritesAllowed The members accept writes again: their data is from a snapshot or a volume of an Etcd that was being deleted, while etcd rejected writes")))
		Expect(etcd.Annotations).To(HaveKeyWithValue("druid.gardener.cloud/run-task", "compaction"), "the request of a user stays")
	})

	It("rejects writes until the Lease is reset", func(ctx SpecContext) {
		refuse(true)
		reconcileFails(ctx, "resetting Lease main-full-snap: unavailable")
		Expect(cluster.RejectsWrites()).To(BeTrue())
	})

	It("resets the Lease again if a snapshot with the rejection is recorded meanwhile", func(ctx SpecContext) {
		r.Members = recordingMembers{members{cluster}, func() {
			Expect(c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
			lease.Spec.HolderIdentity = new("43")
			Expect(c.Update(ctx, lease)).To(Succeed())
		}}
		reconcileOnce(ctx)
		Expect(cluster.RejectsWrites()).To(BeFalse())
		expectEmptyLease(ctx)
	})

	It("resets the Lease again in the next reconciliation if it could not after the members accepted writes", func(ctx SpecContext) {
		r.Members = recordingMembers{members{cluster}, func() {
			refuse(true)
		}}
		reconcileFails(ctx, "resetting Lease main-full-snap: unavailable")
		Expect(cluster.RejectsWrites()).To(BeFalse())

		By("not counting what the sidecar records")
		Expect(c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("43"), new(metav1.NewMicroTime(r.Clock.Now()))
		Expect(c.Update(ctx, lease)).To(Succeed())
		counted := etcdcluster.LeaseFor(lease)
		Expect(counted.Holder).To(BeEmpty())
		Expect(counted.RenewTime).To(BeZero())
		r.Observer.(*observed).FullSnapshotLease, r.Observer.(*observed).Etcd.Alarms = counted, nil

		By("resetting the Lease, once")
		r.Client = c
		reconcileOnce(ctx)
		expectEmptyLease(ctx)
		Expect(etcdcluster.LeaseFor(lease).AwaitsReset).To(BeFalse())
		lease.Spec.HolderIdentity = new("44")
		Expect(c.Update(ctx, lease)).To(Succeed())
		r.Observer.(*observed).FullSnapshotLease = etcdcluster.LeaseFor(lease)
		reconcileOnce(ctx)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal("44")))
	})

	It("keeps the Lease as it is while no member responds: they may still reject writes", func(ctx SpecContext) {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, druidv1alpha1.LeaseAnnotationAwaitsReset, "true")
		Expect(c.Update(ctx, lease)).To(Succeed())
		observed := r.Observer.(*observed)
		observed.FullSnapshotLease, observed.Etcd.Alarms = etcdcluster.LeaseFor(lease), nil
		observed.Etcd.Members = []etcdcluster.EndpointStatus{{Error: "timeout"}}
		reconcileOnce(ctx)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		Expect(lease.UID).To(BeEquivalentTo("lease-uid"))
		Expect(etcdcluster.LeaseFor(lease).AwaitsReset).To(BeTrue())

		By("resetting it when they accept writes")
		observed.Etcd.Members = []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1}}
		reconcileOnce(ctx)
		expectEmptyLease(ctx)
		Expect(etcdcluster.LeaseFor(lease).AwaitsReset).To(BeFalse())
	})

	It("keeps a Lease that was already reset, which the cache does not show", func(ctx SpecContext) {
		r.Observer.(*observed).FullSnapshotLease, r.Observer.(*observed).Etcd.Alarms = etcdcluster.Lease{Exists: true, AwaitsReset: true}, nil
		reconcileOnce(ctx)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		Expect(lease.UID).To(BeEquivalentTo("lease-uid"))
		Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal("42")))
	})

	It("creates a missing Lease with the annotation before the members accept writes", func(ctx SpecContext) {
		etcd.Spec.Backup.Store.Provider, etcd.Spec.Backup.Store.Container = new(druidv1alpha1.StorageProvider("S3")), new("bucket")
		Expect(c.Update(ctx, etcd)).To(Succeed())
		Expect(c.Delete(ctx, lease)).To(Succeed())
		r.Observer.(*observed).FullSnapshotLease = etcdcluster.Lease{}
		desired, err := componentetcd.ValuesFor(componentetcd.Input{Etcd: etcd, Store: &backupstore.Store{}, Replicas: 1, ClusterSize: 1})
		Expect(err).NotTo(HaveOccurred())
		hasLease := false
		r.Members = recordingMembers{members{cluster}, func() {
			hasLease = true
			Expect(c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
			Expect(lease.Annotations).To(HaveKeyWithValue(druidv1alpha1.LeaseAnnotationAwaitsReset, "true"))
			Expect(lease.Labels).To(Equal(componentetcd.SnapshotLeases(desired)[0].Labels))
			Expect(lease.OwnerReferences).To(Equal(componentetcd.SnapshotLeases(desired)[0].OwnerReferences))
			lease.Spec.HolderIdentity = new("43")
			Expect(c.Update(ctx, lease)).To(Succeed())
		}}
		reconcileOnce(ctx)
		Expect(hasLease).To(BeTrue())
		Expect(cluster.RejectsWrites()).To(BeFalse())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		Expect(lease.Spec).To(BeZero())
		Expect(etcdcluster.LeaseFor(lease).AwaitsReset).To(BeFalse())
		Expect(lease.Labels).To(Equal(componentetcd.SnapshotLeases(desired)[0].Labels))
	})

	It("rejects writes until a missing Lease is created", func(ctx SpecContext) {
		Expect(c.Delete(ctx, lease)).To(Succeed())
		r.Observer.(*observed).FullSnapshotLease = etcdcluster.Lease{}
		refuse(false)
		reconcileFails(ctx, "creating Lease main-full-snap before the members accept writes again: unavailable")
		Expect(cluster.RejectsWrites()).To(BeTrue())
	})

	It("rejects writes while the Leases cannot be read", func(ctx SpecContext) {
		r.Observer.(*observed).FullSnapshotLease = etcdcluster.Lease{}
		r.Observer.(*observed).Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionLeases, Message: "timeout"}}
		reconcileFails(ctx, "timeout")
		Expect(cluster.RejectsWrites()).To(BeTrue())
	})

	It("accepts writes again without a store", func(ctx SpecContext) {
		etcd.Spec.Backup.Store = nil
		Expect(c.Update(ctx, etcd)).To(Succeed())
		Expect(c.Delete(ctx, lease)).To(Succeed())
		r.Observer.(*observed).FullSnapshotLease = etcdcluster.Lease{}
		reconcileOnce(ctx)
		Expect(cluster.RejectsWrites()).To(BeFalse())
	})

	It("stays as it is if a deletion has begun that the cache does not show", func(ctx SpecContext) {
		reader = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				err := inner.Get(ctx, key, object, options...)
				object.SetDeletionTimestamp(new(etcd.CreationTimestamp))

				return err
			},
		})
		reconcileOnce(ctx)
		Expect(cluster.RejectsWrites()).To(BeTrue())
	})

	It("is left alone if the alarm is one of etcd", func(ctx SpecContext) {
		r.Observer.(*observed).Etcd.Alarms = []etcdcluster.Alarm{{MemberID: 1, Type: etcdcluster.AlarmCorrupt}}
		reconcileOnce(ctx)
		Expect(cluster.RejectsWrites()).To(BeTrue())
		Expect(etcd.Annotations).To(BeEmpty())
	})
})
