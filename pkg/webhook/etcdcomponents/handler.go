// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcomponents

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Handler handles admission requests.
type Handler struct {
	// Reader reads Etcds.
	Reader client.Reader
	// Accounts are the users with rights on the objects of Etcds.
	Accounts Accounts
}

// Handle decides one admission request. It refuses requests that it cannot read.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Update && req.Operation != admissionv1.Delete {
		return admission.Allowed("nothing is changed or deleted")
	}

	request, err := requestFrom(req.AdmissionRequest)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}

	etcds := &druidv1alpha1.EtcdList{}
	if err := h.Reader.List(ctx, etcds, client.InNamespace(request.Namespace)); err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("reading the Etcds of the namespace: %w", err))
	}

	allowed, reason := Decide(h.Accounts, request, etcds.Items)
	if allowed {
		return admission.Allowed(reason)
	}

	logf.FromContext(ctx).Info("Rejected a change of an object of an Etcd", "operation", req.Operation, "resource", request.Resource, "namespace", req.Namespace, "object", request.Before.Name, "by", req.UserInfo.Username)

	return admission.Denied(reason)
}
