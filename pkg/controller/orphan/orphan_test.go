// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package orphan_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/orphan"
)

func TestOrphan(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Controller Orphan Suite")
}

var _ = Describe("A StatefulSet that is deleted without its pods", func() {
	var (
		set   *appsv1.StatefulSet
		owner metav1.OwnerReference
		lists int
		// onList runs after each list of pods. Nil: nothing.
		onList func(ctx context.Context, c client.Client)
		c      client.Client
	)

	pod := func(name string, owners ...metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: map[string]string{"app": "etcd"}, OwnerReferences: owners}}
	}
	ownersOf := func(ctx context.Context, name string) []metav1.OwnerReference {
		GinkgoHelper()
		live := &corev1.Pod{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: name}, live)).To(Succeed())

		return live.OwnerReferences
	}

	BeforeEach(func(ctx SpecContext) {
		set = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: "set"}}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "etcd"}}
		owner, lists, onList = *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")), 0, nil
		c = fakeclient.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(set, pod("main-0", owner), pod("main-1")).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				if lists++; onList != nil {
					onList(ctx, c)
				}

				return err
			},
		}).Build()
		Expect(c.Get(ctx, client.ObjectKeyFromObject(set), set)).To(Succeed())
		Expect(orphan.Delete(ctx, c, set)).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(set), set)).To(Succeed(), "it exists until its pods are released")
	})

	It("awaits the release after the garbage collector has orphaned the pods that it knows", func() {
		Expect(orphan.AwaitsRelease(set)).To(BeTrue())
		set.Finalizers = append(set.Finalizers, metav1.FinalizerOrphanDependents)
		Expect(orphan.AwaitsRelease(set)).To(BeFalse())
		Expect(orphan.AwaitsRelease(&metav1.ObjectMeta{Finalizers: []string{"druid.gardener.cloud/release-pods"}})).To(BeFalse(), "it is not being deleted")
	})

	It("is gone when no pod refers to it", func(ctx SpecContext) {
		Expect(orphan.Release(ctx, c, c, set)).To(Succeed())
		Expect(ownersOf(ctx, "main-0")).To(BeEmpty())
		Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(set), set))).To(BeTrue())
		Expect(orphan.Release(ctx, c, c, set)).To(Succeed(), "it does not exist any more")
	})

	It("releases a pod that it has adopted meanwhile", func(ctx SpecContext) {
		onList = func(ctx context.Context, c client.Client) {
			if lists == 1 {
				adopted := pod("main-1", owner)
				Expect(c.Update(ctx, adopted)).To(Succeed())
			}
		}
		Expect(orphan.Release(ctx, c, c, set)).To(Succeed())
		Expect(ownersOf(ctx, "main-1")).To(BeEmpty())
	})

	It("stays if another one has its name", func(ctx SpecContext) {
		other := set.DeepCopy()
		other.UID = "earlier"
		Expect(orphan.Release(ctx, c, c, other)).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(set), set)).To(Succeed())
		Expect(ownersOf(ctx, "main-0")).To(HaveLen(1))
	})
})
