// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Handler handles admission requests for the eviction of pods.
type Handler struct {
	// Client reads pods and Etcds, and annotates pods.
	Client client.Client
	// Nodes reads nodes. The caches contain none.
	Nodes client.Reader
	// Clock is the time of decisions.
	Clock clock.PassiveClock
	// UpdateStrategy is the update strategy of Etcds whose spec and annotations have none. Empty: Restart.
	UpdateStrategy druidv1alpha1.UpdateStrategy
}

// Handle decides about one admission request. It allows the eviction after an error: a failure of the operator never blocks a drain.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "eviction" {
		return admission.Allowed("not an eviction")
	}
	log := logf.FromContext(ctx).WithValues("namespace", req.Namespace, "pod", req.Name, "by", req.UserInfo.Username)
	eviction, err := evictionFrom(req.AdmissionRequest)
	if err != nil {
		log.Error(err, "Allowed an eviction after an error")

		return admission.Allowed("the operator cannot decode the eviction")
	}
	request, err := h.read(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, eviction)
	if err != nil {
		log.Error(err, "Allowed an eviction after an error")

		return admission.Allowed("the operator cannot read the pod, its Etcd or its node")
	}
	decision := Decide(request)
	if decision.Annotates && !isDryRun(req.AdmissionRequest, eviction) {
		if err := h.annotate(ctx, request); err != nil {
			log.Error(err, "Allowed an eviction after an error")

			return admission.Allowed("the operator cannot annotate the pod")
		}
		log.Info("The only member is replaced through a temporary second member, because its eviction is requested")
	}
	if decision.Allowed {
		return admission.Allowed(decision.Message)
	}

	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{Status: metav1.StatusFailure, Code: decision.Code, Reason: decision.StatusReason, Message: decision.Message},
	}}
}

// evictionFrom decodes the object of the request.
func evictionFrom(req admissionv1.AdmissionRequest) (policyv1.Eviction, error) {
	eviction := policyv1.Eviction{}
	if err := json.Unmarshal(req.Object.Raw, &eviction); err != nil {
		return eviction, fmt.Errorf("decoding the eviction: %w", err)
	}

	return eviction, nil
}

// isDryRun is true if the request, or the deletion options in its object, are a dry run. The API server copies the former into the latter only.
func isDryRun(req admissionv1.AdmissionRequest, eviction policyv1.Eviction) bool {
	return ptr.Deref(req.DryRun, false) || eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0
}

// read reads the objects on which the decision depends, and nothing more for the pods of other Etcds.
func (h *Handler) read(ctx context.Context, key client.ObjectKey, eviction policyv1.Eviction) (Request, error) {
	request := Request{Time: h.Clock.Now()}
	if options := eviction.DeleteOptions; options != nil && options.Preconditions != nil {
		request.UID = ptr.Deref(options.Preconditions.UID, "")
	}
	var err error
	if request.Pod, err = get(ctx, h.Client, key, &corev1.Pod{}); err != nil || !isMember(request.Pod) {
		return request, err
	}
	etcd := client.ObjectKey{Namespace: key.Namespace, Name: request.Pod.Labels[druidv1alpha1.LabelPartOfKey]}
	if request.Etcd, err = get(ctx, h.Client, etcd, &druidv1alpha1.Etcd{}); err != nil || request.Etcd == nil {
		return request, err
	}
	request.Etcd = helper.WithUpdateStrategy(request.Etcd, h.UpdateStrategy)
	if exemption(request) != "" {
		return request, nil
	}
	temporary := client.ObjectKey{Namespace: key.Namespace, Name: helper.PodName(request.Etcd, 1)}
	if request.Temporary, err = get(ctx, h.Client, temporary, &corev1.Pod{}); err != nil {
		return request, err
	}
	if request.Surge, err = h.surge(ctx, request.Etcd); err != nil || request.Temporary == nil && !isOfRecentSurge(request) {
		return request, err
	}
	request.Node, err = get(ctx, h.Nodes, client.ObjectKey{Name: request.Pod.Spec.NodeName}, &corev1.Node{})

	return request, err
}

// surge returns the record of the surge that is in progress, or of the last one. Nil: there is none.
func (h *Handler) surge(ctx context.Context, etcd *druidv1alpha1.Etcd) (*state.Surge, error) {
	key := client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}
	managedResource, err := get(ctx, h.Client, key, &resourcesv1alpha1.ManagedResource{})
	if err != nil || managedResource == nil {
		return nil, err
	}
	recorded, err := state.Decode(managedResource.Annotations)

	return recorded.Surge, err
}

// get reads an object. Nil: it does not exist.
func get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, object T) (T, error) {
	var none T
	if err := reader.Get(ctx, key, object); err != nil {
		return none, client.IgnoreNotFound(err)
	}

	return object, nil
}

// annotate records the time of the request on the pod. It fails if another pod has the name by now.
func (h *Handler) annotate(ctx context.Context, r Request) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         r.Pod.UID,
		"annotations": map[string]string{druidv1alpha1.PodAnnotationEvictionRequested: r.Time.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Pod.Namespace, Name: r.Pod.Name}}
	if err := h.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotating the pod: %w", err)
	}

	return nil
}
