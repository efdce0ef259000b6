// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package writeguard_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
)

var _ = Describe("CountWrites", func() {
	var (
		ctx     context.Context
		acts    *writeguard.Acts
		counted client.Client
		failure error
		pod     = func() *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main-0"}}
		}
	)

	BeforeEach(func() {
		ctx, acts = writeguard.Record(context.Background())
		failure = nil
		counted = writeguard.CountWrites(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(pod()).WithStatusSubresource(pod()).
			WithInterceptorFuncs(interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				if failure != nil {
					return failure
				}
				return c.Update(ctx, obj, opts...)
			}}).Build())
	})

	It("records each write once, and no read", func() {
		Expect(counted.Get(ctx, client.ObjectKeyFromObject(pod()), &corev1.Pod{})).To(Succeed())
		Expect(counted.List(ctx, &corev1.PodList{})).To(Succeed())
		Expect(acts.All()).To(BeEmpty())
		Expect(acts.AreReports()).To(BeTrue())

		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main-config"}}
		Expect(counted.Create(ctx, configMap)).To(Succeed())
		Expect(counted.Update(ctx, configMap)).To(Succeed())
		Expect(counted.Update(ctx, configMap)).To(Succeed())
		Expect(counted.Patch(ctx, configMap, client.RawPatch("application/merge-patch+json", []byte(`{}`)))).To(Succeed())
		Expect(counted.Status().Patch(ctx, pod(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`)))).To(Succeed())
		Expect(counted.Delete(ctx, configMap)).To(Succeed())
		Expect(counted.SubResource("eviction").Create(ctx, pod(), &policyv1.Eviction{})).To(Succeed())
		Expect(acts.All()).To(Equal([]string{
			"create ConfigMap main-config", "update ConfigMap main-config", "patch ConfigMap main-config", "patch status of Pod main-0",
			"delete ConfigMap main-config", "create eviction of Pod main-0",
		}))
	})

	It("records conflicts, and no other failure", func() {
		failure = errors.New("refused")
		Expect(counted.Update(ctx, pod())).To(MatchError(failure))
		Expect(acts.All()).To(BeEmpty())
		failure = apierrors.NewConflict(corev1.Resource("pods"), "main-0", errors.New("changed"))
		Expect(counted.Update(ctx, pod())).To(MatchError(failure))
		Expect(acts.All()).To(Equal([]string{"update Pod main-0 (conflict)"}))
	})

	It("distinguishes reports from other acts", func() {
		Expect(counted.Status().Patch(ctx, pod(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`)))).To(Succeed())
		Expect(acts.AreReports()).To(BeTrue())
		writeguard.Add(ctx, "step EvictPod of main-0")
		Expect(acts.AreReports()).To(BeFalse())
		Expect(acts.All()).To(HaveLen(2))
	})

	It("records no dry run", func() {
		Expect(counted.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "tried"}}, client.DryRunAll)).To(Succeed())
		Expect(acts.All()).To(BeEmpty())
	})

	It("writes in a context without Record", func() {
		Expect(counted.Delete(context.Background(), pod())).To(Succeed())
	})
})
