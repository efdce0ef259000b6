// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	resourcemanagerclient "github.com/gardener/gardener/pkg/resourcemanager/client"
	resourcemanagerpredicate "github.com/gardener/gardener/pkg/resourcemanager/predicate"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// fakeCluster is a cluster object without caches.
type fakeCluster struct {
	cluster.Cluster
	client client.Client
}

func (c fakeCluster) GetClient() client.Client    { return c.client }
func (c fakeCluster) GetAPIReader() client.Reader { return c.client }
func (c fakeCluster) GetScheme() *runtime.Scheme  { return resourcemanagerclient.CombinedScheme }
func (c fakeCluster) GetRESTMapper() meta.RESTMapper {
	return testrestmapper.TestOnlyStaticRESTMapper(resourcemanagerclient.CombinedScheme)
}

var _ = Describe("A ManagedResource that changes while it is reconciled", func() {
	const finalizer = "resources.gardener.cloud/gardener-resource-manager-seed"

	var (
		ctx = context.Background()
		key = client.ObjectKey{Namespace: "demo", Name: "druid-main"}
	)

	// run reconciles a ManagedResource whose StatefulSet exists. It changes the ManagedResource before the given read. 0: before the finalizer is
	// added.
	run := func(change func(*resourcesv1alpha1.ManagedResource), before int) (client.Client, error) {
		GinkgoHelper()
		etcd, mr := etcdWith("1"), managedResource()
		mr.Finalizers = []string{finalizer}
		if before == 0 {
			mr.Finalizers = nil
		}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", OwnerReferences: []metav1.OwnerReference{helper.OwnerReference(etcd)}}}
		mr.Status.Resources = []resourcesv1alpha1.ObjectReference{{ObjectReference: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: "demo", Name: "main"}}}
		reads, changed := 0, false
		mutate := func(to client.Client) {
			if changed {
				return
			}
			changed = true
			live := &resourcesv1alpha1.ManagedResource{}
			Expect(to.Get(ctx, key, live)).To(Succeed())
			change(live)
			Expect(to.Update(ctx, live)).To(Succeed())
		}
		inner := fakeclient.NewClientBuilder().WithScheme(resourcemanagerclient.CombinedScheme).WithStatusSubresource(mr).
			WithObjects(mr, set, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "latest"}}).Build()
		c := interceptor.NewClient(inner, interceptor.Funcs{
			Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
				if _, is := obj.(*resourcesv1alpha1.ManagedResource); is {
					if reads++; reads == before {
						mutate(inner)
					}
				}

				return to.Get(ctx, key, obj, options...)
			},
			Patch: func(ctx context.Context, to client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
				if before == 0 {
					mutate(inner)
				}

				return to.Patch(ctx, obj, patch, options...)
			},
		})
		renderings := &Renderings{}
		renderings.Record(etcd, "latest", nil)
		on := ManagerOn{Cluster: fakeCluster{client: c}}
		r := &reconciler{manager: on, etcds: fakeclient.NewClientBuilder().WithScheme(druidScheme()).WithObjects(etcd).Build(), renderings: renderings}
		config := configFor(Options{}.withDefaults())
		r.application.Config, r.application.Clock = config.Controllers.ManagedResource, clock.RealClock{}
		r.application.RequeueAfterOnDeletionPending = new(time.Second)
		r.application.ClassFilter = resourcemanagerpredicate.NewClassFilter(*config.Controllers.ResourceClass)
		r.application.TargetScheme, r.application.TargetRESTMapper = on.GetScheme(), renderedKinds{RESTMapper: on.GetRESTMapper()}
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: key})
		Expect(changed).To(BeTrue())

		return c, err
	}

	DescribeTable("is not applied before it is checked again, and deletes nothing",
		func(change func(*resourcesv1alpha1.ManagedResource), before int) {
			c, err := run(change, before)
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main"}, &appsv1.StatefulSet{})).To(Succeed())
			Expect(err).To(MatchError(apierrors.IsConflict, "is a conflict, after which it is reconciled again"))
		},
		Entry("to another class, before the second read", otherClass, 2),
		Entry("to another class, before the third read", otherClass, 3),
		Entry("to no payload, before the third read", noPayload, 3),
		Entry("to no payload, while its finalizer is added", noPayload, 0),
	)
})

func otherClass(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = new("other") }

func noPayload(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.SecretRefs = nil }

// druidScheme has the types of this operator.
func druidScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())

	return scheme
}
