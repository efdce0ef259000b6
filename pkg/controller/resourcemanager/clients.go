// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	"context"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// sanitize removes what a user may have written into a ManagedResource. These are fields of the spec that the operator does not set.
// They are also references in the status to objects in other namespaces, or of kinds that the operator does not render.
func sanitize(mr *resourcesv1alpha1.ManagedResource) {
	mr.Spec.InjectLabels, mr.Spec.Equivalences = nil, nil
	mr.Spec.ForceOverwriteLabels, mr.Spec.ForceOverwriteAnnotations, mr.Spec.DeletePersistentVolumeClaims = nil, nil, nil

	var references []resourcesv1alpha1.ObjectReference
	for _, reference := range mr.Status.Resources {
		if reference.Namespace == mr.Namespace && isRendered(reference.GroupVersionKind().GroupKind()) {
			references = append(references, reference)
		}
	}
	mr.Status.Resources = references
}

// managedResources is a client that reads ManagedResources of Etcds and writes their finalizers and status. What it returns is
// sanitized.
type managedResources struct {
	refusing
}

// Get implements client.Client.
func (c managedResources) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	mr, is := obj.(*resourcesv1alpha1.ManagedResource)
	if !is {
		return c.refusal(obj)
	}
	if err := c.Client.Get(ctx, key, mr, options...); err != nil {
		return err
	}
	if !isNamedForEtcd(mr) {
		return apierrors.NewNotFound(resourcesv1alpha1.Resource("managedresources"), key.Name)
	}
	sanitize(mr)

	return nil
}

// Patch implements client.Client.
func (c managedResources) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	mr, is := obj.(*resourcesv1alpha1.ManagedResource)
	if !is {
		return c.refusal(obj)
	}
	defer sanitize(mr)

	return c.Client.Patch(ctx, mr, patch, options...)
}

// Status implements client.Client.
func (c managedResources) Status() client.SubResourceWriter {
	return managedResourceStatus{refusingSubResource: refusingSubResource{client: c.refusing}}
}

// managedResourceStatus updates the status of ManagedResources.
type managedResourceStatus struct {
	refusingSubResource
}

// Update implements client.SubResourceWriter.
func (s managedResourceStatus) Update(ctx context.Context, obj client.Object, options ...client.SubResourceUpdateOption) error {
	mr, is := obj.(*resourcesv1alpha1.ManagedResource)
	if !is {
		return s.client.refusal(obj)
	}
	defer sanitize(mr)

	return s.client.Client.Status().Update(ctx, mr, options...)
}

// manifests reads a ManagedResource and its payload. It refuses a payload that the operator did not render. It also refuses a
// ManagedResource that is not reconciled any more, because it has changed since it was read first.
type manifests struct {
	managedResources

	// live reads from the API server.
	live client.Reader
	// namespace is that of the ManagedResource.
	namespace string
	// etcd is the Etcd for which the ManagedResource was checked. Nil: there was none.
	etcd   *druidv1alpha1.Etcd
	latest rendering
}

// Get implements client.Client.
func (c manifests) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	secret, is := obj.(*corev1.Secret)
	if !is {
		return c.managedResource(ctx, key, obj, options...)
	}
	if key.Namespace != c.namespace || key.Name != c.latest.secret {
		return c.refusal(secret)
	}
	if err := c.live.Get(ctx, key, secret, options...); err != nil {
		return err
	}
	if utils.ComputeSecretChecksum(secret.Data) != c.latest.checksum {
		secret.Data = nil

		return fmt.Errorf("it does not contain what the operator rendered, and is not applied: delete Secret %s, and the operator writes it again", key)
	}

	return nil
}

// managedResource reads the ManagedResource. It returns a conflict if it is not reconciled any more. Gardener's reconciler would delete the
// objects of a ManagedResource of another class, and those that its payload lacks.
func (c manifests) managedResource(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if err := c.managedResources.Get(ctx, key, obj, options...); err != nil {
		return err
	}
	if reason := decide(obj.(*resourcesv1alpha1.ManagedResource), c.etcd, c.latest); reason != "" {
		return apierrors.NewConflict(resourcesv1alpha1.Resource("managedresources"), key.Name, fmt.Errorf("it changed while it was reconciled, and is not applied: %s", reason))
	}

	return nil
}

// target writes the objects of one Etcd.
type target struct {
	refusing

	// live reads from the API server.
	live client.Reader
	// etcd is the owner of the objects. It has no UID if it no longer exists.
	etcd *druidv1alpha1.Etcd
}

// permits is true for objects of the kinds that the operator renders, in the namespace of the Etcd.
func (c target) permits(obj client.Object, namespace string) (schema.GroupVersionKind, bool) {
	kind, err := c.GroupVersionKindFor(obj)

	return kind, err == nil && isRendered(kind.GroupKind()) && namespace == c.etcd.Namespace
}

// Get implements client.Client. The cache does not hold an object that has lost its labels.
func (c target) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if _, permitted := c.permits(obj, key.Namespace); !permitted {
		return c.refusal(obj)
	}
	if err := c.Client.Get(ctx, key, obj, options...); !apierrors.IsNotFound(err) {
		return err
	}

	return c.live.Get(ctx, key, obj, options...)
}

// List implements client.Client. It returns no autoscaler: only the operator scales a StatefulSet of an Etcd.
func (c target) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *autoscalingv1.HorizontalPodAutoscalerList:
		return nil
	case *corev1.EventList:
		return c.Client.List(ctx, list, append(options, client.InNamespace(c.etcd.Namespace))...)
	}

	return c.refusal(list)
}

// Create implements client.Client.
func (c target) Create(ctx context.Context, obj client.Object, options ...client.CreateOption) error {
	if _, permitted := c.permits(obj, obj.GetNamespace()); !permitted {
		return c.refusal(obj)
	}

	return c.Client.Create(ctx, obj, options...)
}

// Update implements client.Client. It refuses an object that another controller owns.
func (c target) Update(ctx context.Context, obj client.Object, options ...client.UpdateOption) error {
	kind, permitted := c.permits(obj, obj.GetNamespace())
	if !permitted {
		return c.refusal(obj)
	}
	live, err := c.metadata(ctx, kind, obj)
	if err != nil {
		return err
	}
	if owner := metav1.GetControllerOf(live); owner != nil && !helper.IsManagedFor(live, c.etcd) {
		return apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, obj.GetName(),
			fmt.Errorf("it belongs to %s %s and not to Etcd %s: delete it if nothing needs it", owner.Kind, owner.Name, c.etcd.Name))
	}

	return c.Client.Update(ctx, obj, options...)
}

// Delete implements client.Client. Objects that the Etcd does not own do not exist for it.
func (c target) Delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	kind, permitted := c.permits(obj, obj.GetNamespace())
	if !permitted {
		return c.refusal(obj)
	}
	live, err := c.metadata(ctx, kind, obj)
	if err != nil {
		return err
	}
	if !helper.IsManagedFor(live, c.etcd) {
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, obj.GetName())
	}

	return c.Client.Delete(ctx, obj, append(options, client.Preconditions{UID: new(live.GetUID())})...)
}

func (c target) metadata(ctx context.Context, kind schema.GroupVersionKind, obj client.Object) (*metav1.PartialObjectMetadata, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)

	return live, c.live.Get(ctx, client.ObjectKeyFromObject(obj), live)
}

// health reads ManagedResources and the objects to which they refer, and writes only the status of ManagedResources.
type health struct {
	managedResources
}

// Get implements client.Client.
func (c health) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if _, is := obj.(*resourcesv1alpha1.ManagedResource); is {
		return c.managedResources.Get(ctx, key, obj, options...)
	}
	if kind, err := c.GroupVersionKindFor(obj); err != nil || !isRendered(kind.GroupKind()) {
		return c.refusal(obj)
	}

	return c.Client.Get(ctx, key, obj, options...)
}

// List implements client.Client.
func (c health) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*corev1.EventList); is {
		return c.Client.List(ctx, list, options...)
	}

	return c.refusal(list)
}

// collector finds and deletes payloads of the operator. Only ManagedResources refer to them, and no other object is garbage.
type collector struct {
	refusing
}

// List implements client.Client.
func (c collector) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind, err := c.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	switch kind.GroupKind() {
	case schema.GroupKind{Kind: "SecretList"}, resourcesv1alpha1.Kind("ManagedResourceList"):
		return c.Client.List(ctx, list, append(options, client.MatchingLabels{managedresources.LabelKeyOrigin: druidv1alpha1.ManagedResourceOrigin})...)
	}

	return nil
}

// Delete implements client.Client.
func (c collector) Delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	if _, is := obj.(*corev1.Secret); !is {
		return c.refusal(obj)
	}

	return c.Client.Delete(ctx, obj, options...)
}
