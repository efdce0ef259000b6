// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// etcdWith returns the Etcd demo/main with a UID.
func etcdWith(uid types.UID) *druidv1alpha1.Etcd {
	return &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: uid}}
}

// managedResource returns the ManagedResource of the Etcd demo/main, as the operator writes it.
func managedResource() *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "druid-main", Labels: map[string]string{"origin": "gardener-extension-etcd-druid"}},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{Class: new("seed"), SecretRefs: []corev1.LocalObjectReference{{Name: "latest"}}},
	}
}

var _ = Describe("decide", func() {
	DescribeTable("returns why a ManagedResource is not reconciled",
		func(mutate func(*resourcesv1alpha1.ManagedResource), etcd *druidv1alpha1.Etcd, latest rendering, reason string) {
			mr := managedResource()
			mutate(mr)
			if reason == "" {
				Expect(decide(mr, etcd, latest)).To(BeEmpty())
			} else {
				Expect(decide(mr, etcd, latest)).To(ContainSubstring(reason))
			}
		},
		Entry("none for the latest rendering", func(*resourcesv1alpha1.ManagedResource) {}, etcdWith("1"), rendering{etcd: "1", secret: "latest"}, ""),
		Entry("another origin", func(mr *resourcesv1alpha1.ManagedResource) { mr.Labels["origin"] = "gardener" }, etcdWith("1"), rendering{etcd: "1", secret: "latest"}, "not one of this operator"),
		Entry("another name", func(mr *resourcesv1alpha1.ManagedResource) { mr.Name = "main" }, etcdWith("1"), rendering{etcd: "1", secret: "latest"}, "not one of this operator"),
		Entry("no Etcd", func(*resourcesv1alpha1.ManagedResource) {}, nil, rendering{etcd: "1", secret: "latest"}, "no Etcd demo/main"),
		Entry("no rendering after a restart", func(*resourcesv1alpha1.ManagedResource) {}, etcdWith("1"), rendering{}, "has not rendered"),
		Entry("only a rendering of a previous Etcd of the same name", func(*resourcesv1alpha1.ManagedResource) {}, etcdWith("2"), rendering{etcd: "1", secret: "latest"}, "has not rendered"),
		Entry("another class", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = new("other") }, etcdWith("1"), rendering{etcd: "1", secret: "latest"}, "class"),
		Entry("another Secret", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.SecretRefs[0].Name = "other" }, etcdWith("1"), rendering{etcd: "1", secret: "latest"}, "Secret latest"),
		Entry("a further Secret", func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: "other"})
		}, etcdWith("1"), rendering{etcd: "1", secret: "latest"}, "Secret latest"),
		Entry("none for a deletion, although nothing was rendered and the Etcd is gone", func(mr *resourcesv1alpha1.ManagedResource) {
			mr.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, nil, rendering{}, ""),
	)
})

var _ = Describe("Renderings", func() {
	It("enqueue a ManagedResource when its rendering is recorded first, or changes", func() {
		renderings, etcd := &Renderings{}, etcdWith("1")
		key := client.ObjectKey{Namespace: "demo", Name: "druid-main"}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		awaitOne := func() {
			GinkgoHelper()
			Expect(queue.Len()).To(Equal(1))
			request, _ := queue.Get()
			queue.Done(request)
			Expect(request.NamespacedName).To(Equal(key))
		}
		renderings.Record(etcd, "first", map[string][]byte{"a": []byte("1")})
		Expect(renderings.source().Start(context.Background(), queue)).To(Succeed())
		awaitOne()
		renderings.Record(etcd, "first", map[string][]byte{"a": []byte("1")})
		Expect(queue.Len()).To(BeZero())
		renderings.Record(etcd, "second", map[string][]byte{"a": []byte("2")})
		awaitOne()

		By("discarding only what belongs to the deleted Etcd")
		renderings.Discard(etcdWith("0"))
		Expect(renderings.of(key).secret).To(Equal("second"))
		renderings.Discard(etcd)
		Expect(renderings.of(key)).To(BeZero())
	})
})
