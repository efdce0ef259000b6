// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// switchOff stops the etcd-druid in an order that prevents its restart:
//
//  1. An annotation makes gardener-resource-manager ignore its ManagedResource. gardenlet keeps this annotation.
//  2. The deletion of its webhook allows the requests of gardener-resource-manager for this operator.
//  3. The Deployment is scaled down.
//
// The operator repeats all steps while pods exist.
func (g *Guard) switchOff(ctx context.Context, deployment *appsv1.Deployment) error {
	resource := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: EtcdDruidKey.Namespace, Name: EtcdDruidKey.Name}}
	if err := annotate(ctx, g.Client, resource, resourcesv1alpha1.Ignore, "true"); err != nil {
		return err
	}
	webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: etcdDruidName}}
	if err := client.IgnoreNotFound(g.Client.Delete(ctx, webhooks)); err != nil {
		return fmt.Errorf("deleting ValidatingWebhookConfiguration %s: %w", etcdDruidName, err)
	}
	if ptr.Deref(deployment.Spec.Replicas, 1) > 0 {
		before := deployment.DeepCopy()
		deployment.Spec.Replicas = new(int32(0))
		if err := g.Client.Patch(ctx, deployment, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("scaling Deployment %s down: %w", EtcdDruidKey, err)
		}
		if g.Recorder != nil {
			g.Recorder.Eventf(deployment, nil, corev1.EventTypeNormal, "TakenOver", "TakeOver", "gardener-extension-etcd-druid takes the seed over and has scaled this etcd-druid down")
		}
	}

	return nil
}

// switchOn makes gardener-resource-manager apply the ManagedResource of etcd-druid again.
func switchOn(ctx context.Context, c client.Client, resource *resourcesv1alpha1.ManagedResource) error {
	before := resource.DeepCopy()
	delete(resource.Annotations, resourcesv1alpha1.Ignore)
	metav1.SetMetaDataAnnotation(&resource.ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.GardenerOperationReconcile)
	if err := c.Patch(ctx, resource, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("handing ManagedResource %s back: %w", EtcdDruidKey, err)
	}

	return nil
}

// annotate sets an annotation of an object if the object exists and does not have the value yet.
func annotate(ctx context.Context, c client.Client, object client.Object, key, value string) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}

		return fmt.Errorf("reading %s: %w", client.ObjectKeyFromObject(object), err)
	}
	if object.GetAnnotations()[key] == value {
		return nil
	}
	before := object.DeepCopyObject().(client.Object)
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
	if err := c.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotating %s with %s: %w", client.ObjectKeyFromObject(object), key, err)
	}

	return nil
}
