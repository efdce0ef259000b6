// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secret_test

import (
	"context"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/secret"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const finalizer = "druid.gardener.cloud/etcd-druid"

// cluster is a fake API server and the controller.
type cluster struct {
	client.Client
	reconciler *secret.Reconciler
	writes     int
	// again is when the controller reconciles the last Secret again. 0: after the next event.
	again time.Duration
}

func newCluster(objects ...client.Object) *cluster {
	GinkgoHelper()
	c := &cluster{}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	c.Client = fake.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(objects...).
		WithStatusSubresource(&druidv1alpha1.EtcdCopyBackupsTask{}).
		WithIndex(&resourcesv1alpha1.ManagedResource{}, secret.NeededIndex, secret.NeededBy).
		WithIndex(&druidv1alpha1.EtcdCopyBackupsTask{}, secret.NeededIndex, secret.NeededBy).
		WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, to client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			c.writes++

			return to.Patch(ctx, obj, patch, opts...)
		}}).Build()
	c.reconciler = &secret.Reconciler{Client: c.Client, Secrets: c.Client, Reader: c.Client, CopyTasks: true}

	return c
}

// reconcile reconciles a Secret, and returns its finalizers.
func (c *cluster) reconcile(ctx context.Context, name string) []string {
	GinkgoHelper()
	result, err := c.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: name}})
	Expect(err).NotTo(HaveOccurred())
	c.again = result.RequeueAfter

	return c.finalizers(ctx, name)
}

// finalizers are the finalizers of a Secret. Nil: the Secret has none, or is gone.
func (c *cluster) finalizers(ctx context.Context, name string) []string {
	GinkgoHelper()
	found := &corev1.Secret{}
	Expect(client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, found))).To(Succeed())

	return found.Finalizers
}

// accept records that an Etcd has accepted a generation that needs a Secret.
func (c *cluster) accept(ctx context.Context, etcd, secretName string) {
	GinkgoHelper()
	resource := &resourcesv1alpha1.ManagedResource{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-" + etcd}, resource)).To(Succeed())
	resource.Annotations = acceptedFor(etcd, secretName).Annotations
	Expect(c.Update(ctx, resource)).To(Succeed())
}

func meta(name string, finalizers ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "demo", Name: name, Finalizers: finalizers}
}

func secretOf(name string, finalizers ...string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta(name, finalizers...)}
}

func etcdWith(name, secretName string) *druidv1alpha1.Etcd {
	etcd := &druidv1alpha1.Etcd{ObjectMeta: meta(name, finalizer)}
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{SecretRef: &corev1.SecretReference{Name: secretName}}

	return etcd
}

func podOf(etcd, name, secretName string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta(name)}
	pod.Labels = map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": etcd}
	pod.Spec.Volumes = []corev1.Volume{{Name: "store", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secretName}}}}

	return pod
}

func statefulSetOf(etcd, secretName string) *appsv1.StatefulSet {
	pod := podOf(etcd, etcd, secretName)

	return &appsv1.StatefulSet{ObjectMeta: pod.ObjectMeta, Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: pod.Spec}}}
}

// acceptedFor is the ManagedResource of an Etcd whose accepted generation needs a Secret.
func acceptedFor(etcd, secretName string) *resourcesv1alpha1.ManagedResource {
	GinkgoHelper()

	return managedResourceOf(etcd, &etcdWith(etcd, secretName).Spec)
}

func managedResourceOf(etcd string, accepted *druidv1alpha1.EtcdSpec) *resourcesv1alpha1.ManagedResource {
	GinkgoHelper()
	resource := &resourcesv1alpha1.ManagedResource{ObjectMeta: meta("druid-" + etcd)}
	resource.Labels = map[string]string{"origin": "gardener-extension-etcd-druid"}
	annotations, err := (state.State{Accepted: &state.Accepted{Generation: 1, Spec: accepted}}).Encode()
	Expect(err).NotTo(HaveOccurred())
	resource.Annotations = annotations

	return resource
}

// foreign is a ManagedResource of another controller.
func foreign(resource *resourcesv1alpha1.ManagedResource) *resourcesv1alpha1.ManagedResource {
	resource.Labels = map[string]string{"origin": "gardenlet"}

	return resource
}

// withUnneeded is an Etcd whose spec names a Secret in a field that no pod needs.
func withUnneeded(name, secretName string) *druidv1alpha1.Etcd {
	etcd := etcdWith(name, "store")
	etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{}
	etcd.Spec.Etcd.PeerUrlTLS.ClientTLSSecretRef.Name = secretName

	return etcd
}

var _ = Describe("A Secret", func() {
	var protected, none = Equal([]string{finalizer}), BeEmpty()

	It("is protected when the accepted generation of an Etcd needs it, and causes no further write", func(ctx SpecContext) {
		c := newCluster(secretOf("used"), secretOf("unused"), etcdWith("main", "used"), acceptedFor("main", "used"))
		Expect(c.reconcile(ctx, "used")).To(protected)
		Expect(c.reconcile(ctx, "used")).To(protected)
		Expect(c.again).To(BeZero())
		Expect(c.reconcile(ctx, "unused")).To(none)
		Expect(c.writes).To(Equal(1))
	})

	It("keeps the finalizers of others", func(ctx SpecContext) {
		c := newCluster(secretOf("used", "example.com/x"), etcdWith("main", "used"), acceptedFor("main", "used"))
		Expect(c.reconcile(ctx, "used")).To(ConsistOf("example.com/x", finalizer))
		Expect(c.Delete(ctx, &druidv1alpha1.Etcd{ObjectMeta: meta("main")})).To(Succeed())
		Expect(c.Patch(ctx, &druidv1alpha1.Etcd{ObjectMeta: meta("main")}, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Expect(c.reconcile(ctx, "used")).To(ConsistOf("example.com/x"))
	})

	DescribeTable("is not protected for a spec that only names it", func(ctx SpecContext, change func(*druidv1alpha1.Etcd), others ...client.Object) {
		etcd := etcdWith("main", "used")
		change(etcd)
		c := newCluster(append(others, secretOf("used"), etcd)...)
		Expect(c.reconcile(ctx, "used")).To(none)
		Expect(c.writes).To(BeZero())
	},
		Entry("of a generation that is suspended, or waits for other Secrets", func(*druidv1alpha1.Etcd) {}),
		Entry("of a generation after the accepted one", func(*druidv1alpha1.Etcd) {}, acceptedFor("main", "before")),
		Entry("of an Etcd that the operator does not reconcile", func(etcd *druidv1alpha1.Etcd) { etcd.Finalizers = nil }, acceptedFor("main", "used")),
		Entry("of an Etcd of which another controller has written a ManagedResource", func(*druidv1alpha1.Etcd) {}, foreign(acceptedFor("main", "used"))),
		Entry("in a field that no pod needs", func(etcd *druidv1alpha1.Etcd) { *etcd = *withUnneeded("main", "used") }, managedResourceOf("main", &withUnneeded("main", "used").Spec)),
	)

	It("loses the finalizer that only a spec needed when the operator adopts the Etcd", func(ctx SpecContext) {
		etcd := withUnneeded("main", "unneeded")
		c := newCluster(secretOf("unneeded", finalizer), etcd, statefulSetOf("main", "used"))
		Expect(c.reconcile(ctx, "unneeded")).To(protected, "it is still the finalizer of etcd-druid")
		Expect(c.Create(ctx, managedResourceOf("main", &etcd.Spec))).To(Succeed())
		Expect(c.reconcile(ctx, "unneeded")).To(none)
	})

	It("is protected from the acceptance of a generation on, before the StatefulSet is applied", func(ctx SpecContext) {
		c := newCluster(secretOf("before", finalizer), secretOf("after"), etcdWith("main", "after"), acceptedFor("main", "before"), statefulSetOf("main", "before"))
		Expect(c.reconcile(ctx, "before")).To(protected)
		Expect(c.again).To(BeZero(), "an event reports the next accepted generation")
		Expect(c.reconcile(ctx, "after")).To(none)

		c.accept(ctx, "main", "after")
		Expect(c.reconcile(ctx, "after")).To(protected)
		Expect(c.reconcile(ctx, "before")).To(protected, "the StatefulSet mounts it")
		Expect(c.again).To(Equal(10 * time.Second))
	})

	DescribeTable("keeps the finalizer if the record does not say what the Etcd needs", func(ctx SpecContext, change func(*resourcesv1alpha1.ManagedResource)) {
		resource := acceptedFor("main", "used")
		change(resource)
		c := newCluster(secretOf("used", finalizer), secretOf("other", finalizer), etcdWith("main", "used"), resource)
		Expect(c.reconcile(ctx, "used")).To(protected)
		Expect(c.again).To(Equal(10 * time.Second))
		Expect(c.reconcile(ctx, "other")).To(none)
	},
		Entry("since it cannot be read", func(resource *resourcesv1alpha1.ManagedResource) {
			resource.Annotations[druidv1alpha1.ManagedResourceAnnotationState] = "{"
		}),
		Entry("since the spec is too large", func(resource *resourcesv1alpha1.ManagedResource) {
			resource.Annotations = managedResourceOf("main", nil).Annotations
		}),
	)

	It("stays protected after a change of the spec until no pod and no StatefulSet mounts it", func(ctx SpecContext) {
		c := newCluster(secretOf("before", finalizer), secretOf("after"), etcdWith("main", "after"), acceptedFor("main", "after"),
			statefulSetOf("main", "before"), podOf("main", "main-0", "before"))
		Expect(c.reconcile(ctx, "before")).To(protected)
		Expect(c.again).To(Equal(10 * time.Second))

		By("rendering the StatefulSet again")
		Expect(c.Delete(ctx, statefulSetOf("main", "before"))).To(Succeed())
		Expect(c.Create(ctx, statefulSetOf("main", "after"))).To(Succeed())
		Expect(c.reconcile(ctx, "before")).To(protected, "the old pod mounts it")

		By("replacing the pod")
		Expect(c.Delete(ctx, podOf("main", "main-0", "before"))).To(Succeed())
		Expect(c.reconcile(ctx, "before")).To(none)
	})

	It("stays protected while the last accepted generation needs it and no pod exists", func(ctx SpecContext) {
		c := newCluster(secretOf("before", finalizer), etcdWith("main", "after"), acceptedFor("main", "before"))
		Expect(c.reconcile(ctx, "before")).To(protected)
	})

	It("is released when only finished pods and Jobs mount it", func(ctx SpecContext) {
		pod := podOf("main", "main-compactor-x", "before")
		pod.Status.Phase = corev1.PodSucceeded
		job := &batchv1.Job{ObjectMeta: podOf("main", "main-compactor", "").ObjectMeta}
		job.Spec.Template.Spec = pod.Spec
		c := newCluster(secretOf("before", finalizer), etcdWith("main", "after"), acceptedFor("main", "after"), pod, job)
		Expect(c.reconcile(ctx, "before")).To(protected, "the Job may start another pod")
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		Expect(c.Status().Update(ctx, job)).To(Succeed())
		Expect(c.reconcile(ctx, "before")).To(none)
	})

	It("is kept for the second of two Etcds when the first one is deleted", func(ctx SpecContext) {
		first, second := etcdWith("first", "shared"), etcdWith("second", "shared")
		c := newCluster(secretOf("shared", finalizer), first, second, acceptedFor("first", "shared"), acceptedFor("second", "shared"))
		Expect(c.reconciler.ReleaseFor(ctx, first)).To(Succeed())
		Expect(c.finalizers(ctx, "shared")).To(protected)
		first.Finalizers = nil
		Expect(c.Update(ctx, first)).To(Succeed())
		Expect(c.Delete(ctx, first)).To(Succeed())
		Expect(c.reconciler.ReleaseFor(ctx, second)).To(Succeed())
		Expect(c.finalizers(ctx, "shared")).To(none)
	})

	It("is released by the last of two Etcds that are deleted at the same time", func(ctx SpecContext) {
		first, second := etcdWith("first", "shared"), etcdWith("second", "shared")
		c := newCluster(secretOf("shared", finalizer), first, second, podOf("second", "second-0", "shared"))
		Expect(c.Delete(ctx, first)).To(Succeed())
		Expect(c.Delete(ctx, second)).To(Succeed())
		Expect(c.reconciler.ReleaseFor(ctx, first)).To(Succeed())
		Expect(c.finalizers(ctx, "shared")).To(protected, "a pod of the second one mounts it")
		Expect(c.Delete(ctx, podOf("second", "second-0", "shared"))).To(Succeed())
		Expect(c.reconciler.ReleaseFor(ctx, second)).To(Succeed())
		Expect(c.finalizers(ctx, "shared")).To(none)
	})

	It("is not released because of a cache that misses a new Etcd", func(ctx SpecContext) {
		c := newCluster(secretOf("shared", finalizer))
		c.reconciler.Reader = newCluster(secretOf("shared", finalizer), etcdWith("new", "shared"), acceptedFor("new", "shared")).Client
		Expect(c.reconcile(ctx, "shared")).To(protected)
		Expect(c.writes).To(BeZero())
	})

	It("is not released over a write that the cache misses", func(ctx SpecContext) {
		c := newCluster(secretOf("before", finalizer))
		old := newCluster(secretOf("before", finalizer))
		changed := secretOf("before")
		Expect(c.Get(ctx, client.ObjectKeyFromObject(changed), changed)).To(Succeed())
		changed.Labels = map[string]string{"a": "b"}
		Expect(c.Update(ctx, changed)).To(Succeed())
		c.reconciler.Secrets = old.Client
		Expect(c.reconcile(ctx, "before")).To(protected)
		Expect(c.writes).To(Equal(1), "the API server rejects the write as a conflict")
		Expect(c.again).To(Equal(time.Second), "a change of the data causes no event")

		c.reconciler.Secrets = c.Client
		Expect(c.reconcile(ctx, "before")).To(none)
	})

	Describe("that a user deletes while it is used", func() {
		It("stays until its last use has ended", func(ctx SpecContext) {
			c := newCluster(secretOf("used", finalizer), etcdWith("main", "used"), acceptedFor("main", "used"))
			Expect(c.Delete(ctx, secretOf("used"))).To(Succeed())
			Expect(c.reconcile(ctx, "used")).To(protected)
			Expect(c.again).To(Equal(10 * time.Second))
			c.accept(ctx, "main", "other")
			c.reconcile(ctx, "used")
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "used"}, &corev1.Secret{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		})

		It("goes immediately if its namespace is deleted too", func(ctx SpecContext) {
			c := newCluster(secretOf("used", finalizer), etcdWith("main", "used"), acceptedFor("main", "used"), statefulSetOf("main", "used"), podOf("main", "main-0", "used"))
			Expect(c.Delete(ctx, secretOf("used"))).To(Succeed())
			Expect(c.reconcile(ctx, "used")).To(protected)
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
			Expect(c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
			namespace.Finalizers = []string{"kubernetes"}
			Expect(c.Update(ctx, namespace)).To(Succeed())
			Expect(c.Delete(ctx, namespace)).To(Succeed())
			c.reconcile(ctx, "used")
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "used"}, &corev1.Secret{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		})
	})

	Describe("of a copy", func() {
		task := func() *druidv1alpha1.EtcdCopyBackupsTask {
			task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: meta("copy", finalizer)}
			task.Spec.SourceStore.SecretRef = &corev1.SecretReference{Name: "source"}
			task.Spec.TargetStore.SecretRef = &corev1.SecretReference{Name: "target"}
			task.Status.ObservedGeneration = new(task.Generation)

			return task
		}
		progressing := func(task *druidv1alpha1.EtcdCopyBackupsTask, reason string) *druidv1alpha1.EtcdCopyBackupsTask {
			task.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.EtcdCopyBackupsTaskProgressing, Status: druidv1alpha1.ConditionTrue, Reason: reason}}

			return task
		}

		DescribeTable("is not protected while no Job copies", func(ctx SpecContext, change func(*druidv1alpha1.EtcdCopyBackupsTask)) {
			waiting := task()
			change(waiting)
			c := newCluster(secretOf("source"), waiting)
			Expect(c.reconcile(ctx, "source")).To(none)
			Expect(c.writes).To(BeZero())
		},
			Entry("since the task is new", func(*druidv1alpha1.EtcdCopyBackupsTask) {}),
			Entry("since it waits", func(task *druidv1alpha1.EtcdCopyBackupsTask) { progressing(task, "Waiting") }),
			Entry("since its spec is invalid", func(task *druidv1alpha1.EtcdCopyBackupsTask) { progressing(task, "InvalidSpec") }),
			Entry("for the newest spec yet", func(task *druidv1alpha1.EtcdCopyBackupsTask) {
				progressing(task, "Copying").Generation = 2
			}),
		)

		It("stays protected while the Job mounts it, although the task waits again", func(ctx SpecContext) {
			job := &batchv1.Job{ObjectMeta: podOf("copy", "copy-worker", "").ObjectMeta}
			job.Labels["app.kubernetes.io/component"] = druidv1alpha1.ComponentNameCopyBackupsJob
			job.Spec.Template.Spec = podOf("copy", "", "source").Spec
			c := newCluster(secretOf("source", finalizer), secretOf("target", finalizer), progressing(task(), "Waiting"), job)
			Expect(c.reconcile(ctx, "source")).To(protected)
			Expect(c.again).To(Equal(10 * time.Second))
			Expect(c.reconcile(ctx, "target")).To(none)
		})

		It("is protected until the copy has ended", func(ctx SpecContext) {
			c := newCluster(secretOf("source"), secretOf("target"), progressing(task(), "Copying"))
			Expect(c.reconcile(ctx, "source")).To(protected)
			Expect(c.reconcile(ctx, "target")).To(protected)
			ended := task()
			Expect(c.Get(ctx, client.ObjectKeyFromObject(ended), ended)).To(Succeed())
			ended.Status.ObservedGeneration = new(ended.Generation)
			ended.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.EtcdCopyBackupsTaskFailed, Status: druidv1alpha1.ConditionTrue}}
			Expect(c.Status().Update(ctx, ended)).To(Succeed())
			Expect(c.reconcile(ctx, "source")).To(none)
			Expect(c.reconcile(ctx, "target")).To(none)
		})

		It("stays protected while an Etcd uses the same Secret", func(ctx SpecContext) {
			c := newCluster(secretOf("target", finalizer), etcdWith("main", "target"), acceptedFor("main", "target"))
			Expect(c.reconcile(ctx, "target")).To(protected)
		})
	})

	Describe("of another owner", func() {
		DescribeTable("never gets the finalizer, and loses that of etcd-druid", func(ctx SpecContext, mark func(*corev1.Secret)) {
			fresh, adopted := secretOf("fresh"), secretOf("adopted", finalizer)
			mark(fresh)
			mark(adopted)
			c := newCluster(fresh, adopted, etcdWith("main", "fresh"), etcdWith("events", "adopted"), acceptedFor("main", "fresh"), acceptedFor("events", "adopted"))
			Expect(c.reconcile(ctx, "fresh")).To(none)
			Expect(c.writes).To(BeZero())
			Expect(c.reconcile(ctx, "adopted")).To(none)
		},
			Entry("of a secrets manager", func(secret *corev1.Secret) { secret.Labels = map[string]string{"managed-by": "secrets-manager"} }),
			Entry("of a BackupEntry", func(secret *corev1.Secret) {
				secret.Annotations = map[string]string{"backup.gardener.cloud/created-by": "shoot--foo--uid"}
			}),
		)

		It("is left alone while only etcd-druid uses it", func(ctx SpecContext) {
			c := newCluster(secretOf("theirs", finalizer), secretOf("former", finalizer), etcdWith("main", "theirs"), statefulSetOf("main", "theirs"))
			c.reconciler.Disabled = true
			Expect(c.reconcile(ctx, "theirs")).To(protected)
			Expect(c.reconcile(ctx, "former")).To(protected)
			Expect(c.writes).To(BeZero())
		})
	})

	It("is released before an uninstallation, in the watched namespaces only", func(ctx SpecContext) {
		other := secretOf("creds", finalizer)
		other.Namespace = "other"
		c := newCluster(etcdWith("main", "creds"), acceptedFor("main", "creds"), secretOf("creds", finalizer), other)
		Expect(c.reconciler.ReleaseAll(ctx, "demo")).To(Equal(1))
		Expect(c.finalizers(ctx, "creds")).To(BeEmpty())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
		Expect(other.Finalizers).To(ConsistOf(finalizer))
	})

	It("is released if the protection is disabled, although it is used", func(ctx SpecContext) {
		c := newCluster(secretOf("used", finalizer), etcdWith("main", "used"), acceptedFor("main", "used"), statefulSetOf("main", "used"))
		c.reconciler.Disabled = true
		Expect(c.reconcile(ctx, "used")).To(none)
	})
})
