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

// Handler answers what the API server asks.
type Handler struct {
	// Reader reads Etcds.
	Reader client.Reader
	// Accounts are who may do what.
	Accounts Accounts
}

// Handle answers one question. What it cannot read it refuses.
func (h *Handler) Handle(ctx context.Context, asked admission.Request) admission.Response {
	if asked.Operation != admissionv1.Update && asked.Operation != admissionv1.Delete {
		return admission.Allowed("nothing is changed or deleted")
	}

	request, err := requestFrom(asked.AdmissionRequest)
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

	logf.FromContext(ctx).Info("Refused a change of an object of an Etcd", "operation", asked.Operation, "resource", request.Resource, "namespace", asked.Namespace, "object", request.Before.Name, "by", asked.UserInfo.Username)

	return admission.Denied(reason)
}
