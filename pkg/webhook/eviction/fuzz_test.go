// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package eviction_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/eviction"
)

// FuzzHandle checks that each body of an AdmissionReview gets a response. Each pod can send one to the webhook server.
func FuzzHandle(f *testing.F) {
	for _, object := range []string{
		`{"metadata":{"name":"test-0","namespace":"test-ns"}}`, `{"deleteOptions":{"dryRun":["All"],"preconditions":{"uid":"other"}}}`, `{"deleteOptions":{"preconditions":{}}}`, "null", "[]", "",
	} {
		f.Add("CREATE", "eviction", "test-ns", "test-0", object)
	}
	f.Add("UPDATE", "status", "", "", "{}")
	c := fakeclient.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(singleMember(), podOf("test-0")).Build()
	webhook := &admission.Webhook{RecoverPanic: new(false), Handler: &eviction.Handler{Client: c, Nodes: c, Clock: testclock.NewFakePassiveClock(now)}}
	f.Fuzz(func(t *testing.T, operation, subResource, namespace, name, object string) {
		response := webhook.Handle(t.Context(), requestOf(operation, subResource, namespace, name, object))
		if !response.Allowed && response.Result == nil {
			t.Error("a rejection has no reason")
		}
		recorded, review := httptest.NewRecorder(), admissionv1.AdmissionReview{}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(object))
		request.Header.Set("Content-Type", "application/json")
		webhook.ServeHTTP(recorded, request)
		if err := json.Unmarshal(recorded.Body.Bytes(), &review); err != nil || review.Response == nil {
			t.Errorf("the response to the body %q is %q", object, recorded.Body)
		}
	})
}

func requestOf(operation, subResource, namespace, name, object string) admission.Request {
	request := admission.Request{}
	request.UID, request.Operation, request.SubResource = types.UID("uid"), admissionv1.Operation(operation), subResource
	request.Namespace, request.Name, request.Object.Raw = namespace, name, []byte(object)

	return request
}
