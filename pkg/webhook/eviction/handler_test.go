// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package eviction_test

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/eviction"
)

// requestFor returns an admission request for the eviction of a pod. Nil: without deletion options.
func requestFor(name string, options *metav1.DeleteOptions) admission.Request {
	object, err := json.Marshal(policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "test-ns", Name: name}, DeleteOptions: options})
	Expect(err).NotTo(HaveOccurred())

	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, SubResource: "eviction", Namespace: "test-ns", Name: name, Object: runtime.RawExtension{Raw: object},
	}}
}

var _ = Describe("The webhook", func() {
	const annotation = "etcd-druid.extensions.gardener.cloud/eviction-requested"
	failure := errors.New("no connection")
	handlerFor := func(funcs interceptor.Funcs, objects ...client.Object) *eviction.Handler {
		c := fakeclient.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()

		return &eviction.Handler{Client: c, Nodes: c, Clock: testclock.NewFakePassiveClock(now)}
	}
	annotationOf := func(ctx context.Context, h *eviction.Handler) string {
		GinkgoHelper()
		pod := &corev1.Pod{}
		Expect(h.Client.Get(ctx, client.ObjectKey{Namespace: "test-ns", Name: "test-0"}, pod)).To(Succeed())

		return pod.Annotations[annotation]
	}

	It("rejects the eviction of the only member, and annotates its pod once", func(ctx SpecContext) {
		h := handlerFor(interceptor.Funcs{}, singleMember(), podOf("test-0"))
		for range 2 {
			response := h.Handle(ctx, requestFor("test-0", nil))
			Expect(response.Allowed).To(BeFalse())
			Expect(response.Result.Code).To(BeEquivalentTo(429))
			Expect(response.Result.Reason).To(Equal(metav1.StatusReasonTooManyRequests))
			Expect(response.Result.Message).To(ContainSubstring("temporary second member"))
			Expect(annotationOf(ctx, h)).To(Equal("2026-03-01T12:00:00Z"))
			h.Clock = testclock.NewFakePassiveClock(now.Add(time.Minute))
		}
		h.Clock = testclock.NewFakePassiveClock(now.Add(10 * time.Minute))
		Expect(h.Handle(ctx, requestFor("test-0", nil)).Allowed).To(BeTrue())
	})

	DescribeTable("selects the update strategy", func(ctx SpecContext, operatorDefault, annotation, spec string, rejects bool) {
		h := handlerFor(interceptor.Funcs{}, singleMember(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.UpdateStrategy = nil
			if spec != "" {
				etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategy(spec))
			}
			if annotation != "" {
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/update-strategy", annotation)
			}
		}), podOf("test-0"))
		h.UpdateStrategy = druidv1alpha1.UpdateStrategy(operatorDefault)
		Expect(h.Handle(ctx, requestFor("test-0", nil)).Allowed).NotTo(Equal(rejects))
	},
		Entry("Restart without any", "", "", "", false),
		Entry("of the operator", "Surge", "", "", true),
		Entry("of the annotation before that of the operator", "Surge", "Restart", "", false),
		Entry("of the annotation", "Restart", "Surge", "", true),
		Entry("of the spec before that of the annotation", "Surge", "Surge", "Restart", false),
	)

	DescribeTable("annotates nothing on a dry run", func(ctx SpecContext, change func(*admission.Request)) {
		h := handlerFor(interceptor.Funcs{}, singleMember(), podOf("test-0"))
		request := requestFor("test-0", nil)
		change(&request)
		Expect(h.Handle(ctx, request).Result.Code).To(BeEquivalentTo(429))
		Expect(annotationOf(ctx, h)).To(BeEmpty())
	},
		Entry("of the request", func(r *admission.Request) { r.DryRun = new(true) }),
		Entry("of the deletion", func(r *admission.Request) {
			*r = requestFor("test-0", &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}),
	)

	It("considers the UID in the preconditions", func(ctx SpecContext) {
		h := handlerFor(interceptor.Funcs{}, singleMember(), podOf("test-0"))
		Expect(h.Handle(ctx, requestFor("test-0", metav1.NewPreconditionDeleteOptions("another"))).Allowed).To(BeTrue())
		Expect(h.Handle(ctx, requestFor("test-0", metav1.NewPreconditionDeleteOptions("uid-of-test-0"))).Allowed).To(BeFalse())
	})

	It("ends the drain of the node of the replaced pod", func(ctx SpecContext) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		h := handlerFor(interceptor.Funcs{}, singleMember(), podOf("test-0", created(time.Minute)), podOf("test-1", created(2*time.Minute)), node)
		response := h.Handle(ctx, requestFor("test-0", nil))
		Expect(response.Allowed).To(BeFalse())
		Expect(response.Result.Code).To(BeEquivalentTo(404))
		Expect(response.Result.Reason).To(Equal(metav1.StatusReasonNotFound))
		Expect(annotationOf(ctx, h)).To(BeEmpty())
	})

	It("ends the drain of the node of the replaced pod after the temporary member is deleted", func(ctx SpecContext) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		annotations, err := state.State{Surge: completed("uid-of-test-0", time.Minute)}.Encode()
		Expect(err).NotTo(HaveOccurred())
		managedResource := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "test-ns", Name: "druid-test", Annotations: annotations}}
		h := handlerFor(interceptor.Funcs{}, singleMember(), podOf("test-0", created(time.Minute)), node, managedResource)
		response := h.Handle(ctx, requestFor("test-0", nil))
		Expect(response.Allowed).To(BeFalse())
		Expect(response.Result.Code).To(BeEquivalentTo(404))
		Expect(annotationOf(ctx, h)).To(BeEmpty())
	})

	It("allows other requests", func(ctx SpecContext) {
		h := handlerFor(interceptor.Funcs{}, singleMember(), podOf("test-0"))
		request := requestFor("test-0", nil)
		request.SubResource = "binding"
		Expect(h.Handle(ctx, request).Allowed).To(BeTrue())
		Expect(h.Handle(ctx, requestFor("another-0", nil)).Allowed).To(BeTrue())
	})

	failGet := func(kind string) interceptor.Funcs {
		return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isEtcd := object.(*druidv1alpha1.Etcd); isEtcd && kind == "Etcd" || !isEtcd && kind == key.Name {
				return failure
			}

			return c.Get(ctx, key, object, options...)
		}}
	}
	DescribeTable("allows the eviction after an error", func(ctx SpecContext, funcs interceptor.Funcs, change func(*admission.Request)) {
		h := handlerFor(funcs, singleMember(), podOf("test-0"), podOf("test-1"))
		request := requestFor("test-0", nil)
		if change != nil {
			change(&request)
		}
		Expect(h.Handle(ctx, request).Allowed).To(BeTrue())
	},
		Entry("in the request", interceptor.Funcs{}, func(r *admission.Request) { r.Object.Raw = []byte("no JSON") }),
		Entry("while it reads the pod", failGet("test-0"), nil),
		Entry("while it reads the Etcd", failGet("Etcd"), nil),
		Entry("while it reads the temporary member", failGet("test-1"), nil),
		Entry("while it reads the record of the operator", failGet("druid-test"), nil),
		Entry("while it reads the node", failGet("node-1"), nil),
		Entry("while it annotates the pod", interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return failure
		}}, nil),
	)

	It("annotates no other pod with the same name", func(ctx SpecContext) {
		var patched []byte
		h := handlerFor(interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
			Expect(patch.Type()).To(Equal(types.MergePatchType))
			var err error
			patched, err = patch.Data(object)

			return err
		}}, singleMember(), podOf("test-0"))
		Expect(h.Handle(ctx, requestFor("test-0", nil)).Allowed).To(BeFalse())
		Expect(patched).To(MatchJSON(`{"metadata":{"uid":"uid-of-test-0","annotations":{"` + annotation + `":"2026-03-01T12:00:00Z"}}}`))
	})
})
