// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents_test

import (
	"context"
	"errors"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
)

// brokenReader cannot read.
type brokenReader struct{ client.Reader }

func (brokenReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no connection")
}

var _ = Describe("The webhook", func() {
	handler := &etcdcomponents.Handler{Reader: brokenReader{}}
	req := func(operation admissionv1.Operation, before string) admission.Request {
		return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: operation,
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			OldObject: runtime.RawExtension{Raw: []byte(before)},
		}}
	}

	It("refuses a request that it cannot read, and names the unreadable object", func(ctx SpecContext) {
		response := handler.Handle(ctx, req(admissionv1.Delete, "no JSON"))
		Expect(response.Allowed).To(BeFalse())
		Expect(response.Result.Code).To(BeEquivalentTo(http.StatusBadRequest))
		Expect(response.Result.Message).To(ContainSubstring("reading the object"))

		response = handler.Handle(ctx, req(admissionv1.Update, "{}"))
		Expect(response.Allowed).To(BeFalse())
		Expect(response.Result.Message).To(ContainSubstring("reading the object as it would be"))
	})

	It("refuses while it cannot read Etcds", func(ctx SpecContext) {
		response := handler.Handle(ctx, req(admissionv1.Delete, "{}"))
		Expect(response.Allowed).To(BeFalse())
		Expect(response.Result.Message).To(ContainSubstring("no connection"))
	})

	It("allows requests that neither change nor delete", func(ctx SpecContext) {
		Expect(handler.Handle(ctx, req(admissionv1.Create, "")).Allowed).To(BeTrue())
	})
})
