// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusing is a client that refuses every read and write. A client that embeds it permits single operations.
type refusing struct {
	client.Client
}

var errRefused = errors.New("the embedded resource manager does not do this: it applies only what the operator rendered for the Etcd of the ManagedResource")

// refusal is the error of an operation that is not permitted.
func (r refusing) refusal(obj runtime.Object) error {
	resource, name := schema.GroupResource{}, ""
	if kind, err := r.GroupVersionKindFor(obj); err == nil {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		resource = plural.GroupResource()
	}
	if object, ok := obj.(client.Object); ok {
		name = object.GetName()
	}

	return apierrors.NewForbidden(resource, name, errRefused)
}

// Get implements client.Client.
func (r refusing) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return r.refusal(obj)
}

// List implements client.Client.
func (r refusing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return r.refusal(list)
}

// Apply implements client.Client.
func (r refusing) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return apierrors.NewForbidden(schema.GroupResource{}, "", errRefused)
}

// Create implements client.Client.
func (r refusing) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return r.refusal(obj)
}

// Delete implements client.Client.
func (r refusing) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	return r.refusal(obj)
}

// Update implements client.Client.
func (r refusing) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return r.refusal(obj)
}

// Patch implements client.Client.
func (r refusing) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return r.refusal(obj)
}

// DeleteAllOf implements client.Client.
func (r refusing) DeleteAllOf(_ context.Context, obj client.Object, _ ...client.DeleteAllOfOption) error {
	return r.refusal(obj)
}

// Status implements client.Client.
func (r refusing) Status() client.SubResourceWriter { return refusingSubResource{client: r} }

// SubResource implements client.Client.
func (r refusing) SubResource(string) client.SubResourceClient { return refusingSubResource{client: r} }

// refusingSubResource refuses every read and write of a subresource.
type refusingSubResource struct {
	client refusing
}

// Get implements client.SubResourceClient.
func (r refusingSubResource) Get(_ context.Context, obj, _ client.Object, _ ...client.SubResourceGetOption) error {
	return r.client.refusal(obj)
}

// Create implements client.SubResourceClient.
func (r refusingSubResource) Create(_ context.Context, obj, _ client.Object, _ ...client.SubResourceCreateOption) error {
	return r.client.refusal(obj)
}

// Update implements client.SubResourceClient.
func (r refusingSubResource) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	return r.client.refusal(obj)
}

// Patch implements client.SubResourceClient.
func (r refusingSubResource) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	return r.client.refusal(obj)
}

// Apply implements client.SubResourceClient.
func (r refusingSubResource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return apierrors.NewForbidden(schema.GroupResource{}, "", errRefused)
}
