// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents_test

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/etcdcomponents"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// FuzzHandle checks that each AdmissionReview gets a response, and that a request that cannot be read is rejected.
func FuzzHandle(f *testing.F) {
	const object = `{"metadata":{"name":"test","namespace":"test-ns","labels":{"app.kubernetes.io/managed-by":"etcd-druid","app.kubernetes.io/part-of":"test"}}}`
	f.Add("DELETE", "", "configmaps", "", "user", object, "")
	f.Add("UPDATE", "", "configmaps", "", "user", object, `{"metadata":{"labels":null}}`)
	f.Add("UPDATE", "apps", "statefulsets", "scale", "system:serviceaccount:a:b", object, `{"spec":{"replicas":-1}}`)
	f.Add("UPDATE", "", "pods", "ephemeralcontainers", "", "null", "[]")
	c := fakeclient.NewClientBuilder().WithScheme(app.NewScheme()).WithObjects(fixture.Etcd()).Build()
	webhook := &admission.Webhook{RecoverPanic: new(false), Handler: &etcdcomponents.Handler{Reader: c}}
	f.Fuzz(func(t *testing.T, operation, group, resource, subResource, user, before, after string) {
		request := admission.Request{}
		request.UID, request.Operation, request.SubResource, request.UserInfo.Username = "uid", admissionv1.Operation(operation), subResource, user
		request.Resource.Group, request.Resource.Version, request.Resource.Resource = group, "v1", resource
		request.Namespace, request.OldObject.Raw, request.Object.Raw = "test-ns", []byte(before), []byte(after)
		response := webhook.Handle(t.Context(), request)
		if response.Result == nil || !response.Allowed && response.Result.Message == "" && response.Result.Reason == "" {
			t.Errorf("a response without a reason: %+v", response)
		}
	})
}
