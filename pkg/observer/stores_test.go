// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"sync/atomic"
	"time"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The users of a store", func() {
	var (
		ctx     = context.Background()
		objects []client.Object
		reads   atomic.Int32
	)

	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	etcd := func(namespace, name, prefix string) *druidv1alpha1.Etcd {
		return fixture.Etcd(fixture.WithNamespace(namespace), fixture.WithName(name), fixture.WithStore("S3"), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store.Prefix = prefix
		})
	}
	secret := func(namespace string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: named(namespace, "etcd-backup"), Data: map[string][]byte{"endpoint": []byte("https://e.org"), "secretAccessKey": []byte("geheim")}}
	}
	record := func(namespace, name, text string) *resourcesv1alpha1.ManagedResource {
		resource := &resourcesv1alpha1.ManagedResource{ObjectMeta: named(namespace, "druid-"+name)}
		resource.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/store": text}

		return resource
	}
	gardener := false
	observe := func(copies bool) func() etcdcluster.Observation {
		c := fake.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(objects...).
			WithIndex(&resourcesv1alpha1.ManagedResource{}, observer.StoreIndex, observer.IndexRecordedStore).
			WithIndex(&coordinationv1.Lease{}, observer.StoreIndex, observer.IndexStoreOfLease).
			WithIndex(&druidv1alpha1.Etcd{}, observer.StoreIndex, observer.IndexStoreOfSpec).Build()
		counting := interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, isSecret := obj.(*corev1.Secret); isSecret {
				reads.Add(1)
			}

			return c.Get(ctx, key, obj, opts...)
		}})
		o := &observer.Observer{Reader: c, APIReader: counting, Stores: true, Copies: copies, Gardener: gardener, Unindexed: true}

		return func() etcdcluster.Observation {
			return o.Observe(ctx, etcd("a", "main", "p/main"), observer.Request{Gardener: true})
		}
	}

	BeforeEach(func() {
		reads.Store(0)
		gardener = false
		objects = []client.Object{secret("a"), secret("b"), etcd("a", "main", "p/main"), record("a", "main", `{"provider":"S3","container":"test-bucket","prefix":"p/main"}`)}
	})

	It("are none in an idle cluster, and its Secret is read once", func() {
		read := observe(true)
		o := read()
		Expect(o.StoreUsers).To(BeEmpty())
		Expect(o.StoreCredentials).To(Equal(etcdcluster.StoreCredentials{SecretName: "etcd-backup", Public: map[string]string{"endpoint": "e.org"}}))
		Expect(o.Failures).To(BeEmpty())
		before := reads.Load()
		read()
		Expect(reads.Load()).To(Equal(before))
	})

	It("name a key of the credentials whose value has white space around it", func() {
		objects[0].(*corev1.Secret).Data["accessKeyID"] = []byte("AKIA\n")
		Expect(observe(true)().StoreCredentials.WhiteSpaceKey).To(Equal("accessKeyID"))
	})

	It("are Etcds of all namespaces: by their records, or else by their spec", func() {
		deleted := etcd("b", "recorded", "elsewhere")
		deleted.Finalizers, deleted.DeletionTimestamp = []string{"x"}, new(metav1.NewTime(time.Now()))
		adopted := etcd("b", "adopted", "p/main/adopted")
		objects = append(objects,
			deleted, record("b", "recorded", `{"provider":"S3","container":"test-bucket","prefix":"p/main-2","endpoint":"f","verifiedAt":"2026-01-02T03:04:05Z"}`),
			etcd("b", "created", "p/main"),
			adopted, &appsv1.StatefulSet{ObjectMeta: named("b", "adopted")},
			etcd("b", "moved", "p/main"), record("b", "moved", `{"provider":"S3","container":"test-bucket","prefix":"q"}`),
			etcd("b", "other", "p/other"),
			record("b", "gone", `{"provider":"S3","container":"test-bucket","prefix":"p/main"}`),
		)
		o := observe(false)()
		Expect(o.Failures).To(BeEmpty())
		store := func(prefix, endpoint string) state.Store {
			return state.Store{Provider: "S3", Container: "test-bucket", Prefix: prefix, Endpoint: endpoint, SecretName: "etcd-backup"}
		}
		var found []etcdcluster.StoreUser
		for _, user := range o.StoreUsers {
			user.UID, user.CreationTime = "", time.Time{}
			found = append(found, user)
		}
		verified := store("p/main-2", "f")
		verified.SecretName, verified.VerifiedAt = "", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		Expect(found).To(Equal([]etcdcluster.StoreUser{
			{Namespace: "b", Name: "adopted", Started: true, Store: store("p/main/adopted", "e.org")},
			{Namespace: "b", Name: "created", Store: store("p/main", "e.org")},
			{Namespace: "b", Name: "recorded", Started: true, Deleting: true, Store: verified},
		}))
	})

	lease := func(name, suffix, store string, owner *druidv1alpha1.Etcd) *coordinationv1.Lease {
		lease := &coordinationv1.Lease{ObjectMeta: named("b", name+suffix)}
		lease.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/store": store}
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "Etcd", Name: name, UID: owner.UID, Controller: new(true)}}
		lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)))

		return lease
	}
	const oldLocation, otherLocation = `S3 container "test-bucket" prefix "p/main" endpoint "e.org"`, `S3 container "test-bucket" prefix "q" endpoint "e.org"`

	DescribeTable("are Etcds whose snapshot Leases name it", func(expected []etcdcluster.StoreUser, change func(*druidv1alpha1.Etcd) []client.Object) {
		user := etcd("b", "user", "q")
		user.UID = "user-uid"
		objects = append(objects, change(user)...)
		objects = append(objects, user)
		o := observe(false)()
		Expect(o.Failures).To(BeEmpty())
		for i := range o.StoreUsers {
			o.StoreUsers[i].UID, o.StoreUsers[i].CreationTime, o.StoreUsers[i].Store.SecretName = "", time.Time{}, ""
		}
		Expect(o.StoreUsers).To(Equal(expected))
	},
		Entry("while the pods still write to the store from before a move", []etcdcluster.StoreUser{{Namespace: "b", Name: "user", Started: true, Store: state.Store{
			Provider: "S3", Container: "test-bucket", Prefix: "p/main", Endpoint: "e.org", VerifiedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		}}}, func(user *druidv1alpha1.Etcd) []client.Object {
			return []client.Object{
				record("b", "user", `{"provider":"S3","container":"test-bucket","prefix":"q","endpoint":"e.org"}`), lease("user", "-full-snap", oldLocation, user), lease("user", "-delta-snap", oldLocation, user),
			}
		}),
		Entry("until the Lease of delta snapshots names the new one", []etcdcluster.StoreUser{{Namespace: "b", Name: "user", Started: true, Store: state.Store{
			Provider: "S3", Container: "test-bucket", Prefix: "p/main", Endpoint: "e.org",
		}}}, func(user *druidv1alpha1.Etcd) []client.Object {
			return []client.Object{
				record("b", "user", `{"provider":"S3","container":"test-bucket","prefix":"q","endpoint":"e.org"}`), lease("user", "-full-snap", otherLocation, user), lease("user", "-delta-snap", oldLocation, user),
			}
		}),
		Entry("although the record was removed", []etcdcluster.StoreUser{{Namespace: "b", Name: "user", Started: true, Store: state.Store{
			Provider: "S3", Container: "test-bucket", Prefix: "p/main", Endpoint: "e.org", VerifiedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		}}}, func(user *druidv1alpha1.Etcd) []client.Object {
			user.Spec.Backup.Store.Prefix = "p/main"

			return []client.Object{record("b", "user", ""), lease("user", "-full-snap", oldLocation, user)}
		}),
		Entry("although the record cannot be parsed", []etcdcluster.StoreUser{{Namespace: "b", Name: "user", Started: true, Store: state.Store{
			Provider: "S3", Container: "test-bucket", Prefix: "p/main", Endpoint: "e.org",
		}}}, func(user *druidv1alpha1.Etcd) []client.Object {
			user.Spec.Backup.Store.Prefix = "p/main"

			return []client.Object{record("b", "user", "{"), lease("user", "-delta-snap", oldLocation, user)}
		}),
		Entry("not those with Leases of another owner", nil, func(*druidv1alpha1.Etcd) []client.Object {
			return []client.Object{record("b", "user", `{"provider":"S3","container":"test-bucket","prefix":"q"}`), lease("user", "-full-snap", oldLocation, etcd("b", "x", "x"))}
		}),
	)

	DescribeTable("are Etcds whose record lacks the endpoint", func(expected state.Store, text string, change func(*druidv1alpha1.Etcd)) {
		user := etcd("b", "user", "p/main")
		change(user)
		objects = append(objects, user, record("b", "user", text))
		o := observe(false)()
		Expect(o.Failures).To(BeEmpty())
		Expect(o.StoreUsers).To(ConsistOf(And(HaveField("Started", true), HaveField("Store", expected))))
	},
		Entry("with the endpoint in its Secret", state.Store{Provider: "S3", Container: "test-bucket", Prefix: "p/main", Endpoint: "e.org", SecretName: "etcd-backup"},
			`{"provider":"S3","container":"test-bucket","prefix":"p/main","secretName":"etcd-backup"}`, func(*druidv1alpha1.Etcd) {}),
		Entry("with the Secret of the spec", state.Store{Provider: "S3", Container: "test-bucket", Prefix: "p/main", Endpoint: "e.org", SecretName: "etcd-backup"},
			`{"provider":"S3","container":"test-bucket","prefix":"p/main"}`, func(*druidv1alpha1.Etcd) {}),
		Entry("with the endpoint in the spec", state.Store{Provider: "S3", Container: "test-bucket", Prefix: "p/main", Endpoint: "f.org", SecretName: "etcd-backup"},
			`{"provider":"S3","container":"test-bucket","prefix":"p/main","secretName":"etcd-backup"}`, func(user *druidv1alpha1.Etcd) {
				user.Spec.Backup.Store.EndpointOverride = new("https://f.org")
			}),
		Entry("not with that of another store in the spec", state.Store{Provider: "S3", Container: "test-bucket", Prefix: "p/main", SecretName: "etcd-backup"},
			`{"provider":"S3","container":"test-bucket","prefix":"p/main","secretName":"etcd-backup"}`, func(user *druidv1alpha1.Etcd) { user.Spec.Backup.Store.Prefix = "q" }),
	)

	DescribeTable("are not read from tasks that cannot use it, so that one that cannot be read fails for no other store", func(change func(*druidv1alpha1.StoreSpec), failures int) {
		gardener = true
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: named("c", "unreadable")}
		task.Spec.TargetStore = *etcd("c", "x", "p/main").Spec.Backup.Store
		change(&task.Spec.TargetStore)
		objects = append(objects, task, &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: extensionsv1alpha1.ClusterSpec{Shoot: runtime.RawExtension{Raw: []byte(`{"spec":1}`)}}})
		Expect(observe(true)().Failures).To(HaveLen(failures))
	},
		Entry("of the same store", func(*druidv1alpha1.StoreSpec) {}, 1),
		Entry("of a store that depends on a BackupEntry", func(store *druidv1alpha1.StoreSpec) { store.Provider, store.Container = nil, nil }, 1),
		Entry("of another prefix", func(store *druidv1alpha1.StoreSpec) { store.Prefix = "p/other" }, 0),
		Entry("of another container", func(store *druidv1alpha1.StoreSpec) { store.Container = new("other") }, 0),
		Entry("of another provider", func(store *druidv1alpha1.StoreSpec) { store.Provider = new(druidv1alpha1.StorageProvider("gcp")) }, 0),
		Entry("of no prefix, which are rejected", func(store *druidv1alpha1.StoreSpec) { store.Prefix = "" }, 0),
	)

	podOf := func(task string, phase corev1.PodPhase) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: named("b", "pod"), Status: corev1.PodStatus{Phase: phase}}
		pod.Labels = map[string]string{"app.kubernetes.io/component": "etcd-copy-backups-job", "app.kubernetes.io/part-of": task}

		return pod
	}
	copyTo := func(name string, status druidv1alpha1.EtcdCopyBackupsTaskStatus) *druidv1alpha1.EtcdCopyBackupsTask {
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: named("b", name), Status: status}
		task.Generation = 1
		task.Spec.TargetStore = *etcd("b", "x", "p/main").Spec.Backup.Store

		return task
	}

	It("are copies that have not ended", func() {
		ended := func(conditionType, status string) druidv1alpha1.EtcdCopyBackupsTaskStatus {
			return druidv1alpha1.EtcdCopyBackupsTaskStatus{ObservedGeneration: new(int64(1)), Conditions: []druidv1alpha1.Condition{
				{Type: druidv1alpha1.ConditionType(conditionType), Status: druidv1alpha1.ConditionStatus(status)},
			}}
		}
		changed := ended("Succeeded", "True")
		changed.ObservedGeneration = new(int64(0))
		objects = append(objects, copyTo("new", druidv1alpha1.EtcdCopyBackupsTaskStatus{}), copyTo("running", ended("Progressing", "True")), copyTo("changed", changed),
			copyTo("succeeded", ended("Succeeded", "True")), copyTo("failed", ended("Failed", "True")), copyTo("invalid", ended("Progressing", "False")))
		names := func(users []etcdcluster.StoreUser) []string {
			var names []string
			for _, user := range users {
				Expect(user.IsCopy).To(BeTrue())
				names = append(names, user.Name)
			}

			return names
		}
		Expect(names(observe(true)().StoreUsers)).To(ConsistOf("new", "running", "changed"))
		Expect(names(observe(false)().StoreUsers)).To(BeEmpty(), "nothing executes them")
	})

	DescribeTable("are copies, which may have written to it", func(expected bool, others ...client.Object) {
		objects = append(append(objects, copyTo("copy", druidv1alpha1.EtcdCopyBackupsTaskStatus{})), others...)
		o := observe(true)()
		Expect(o.Failures).To(BeEmpty())
		Expect(o.StoreUsers).To(ConsistOf(And(HaveField("IsCopy", true), HaveField("Started", expected))))
	},
		Entry("not without a Job", false),
		Entry("not with the Job of another task", false, &batchv1.Job{ObjectMeta: named("b", "other-worker")}),
		Entry("while the Job exists", true, &batchv1.Job{ObjectMeta: named("b", "copy-worker")}),
		Entry("while a pod runs whose Job was deleted", true, podOf("copy", corev1.PodRunning)),
		Entry("while such a pod is pending", true, podOf("copy", corev1.PodPending)),
		Entry("not after such a pod has failed", false, podOf("copy", corev1.PodFailed)),
		Entry("not after such a pod has succeeded", false, podOf("copy", corev1.PodSucceeded)),
		Entry("not while a pod of another task runs", false, podOf("other", corev1.PodRunning)),
	)
})
