// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

const resourceManagerFinalizer = "resources.gardener.cloud/gardener-resource-manager-seed"

// resourceManager applies ManagedResources like gardener-resource-manager: if their generation is new or the operation
// annotation requests it, but not if an applied object has changed.
func (k *Cluster) resourceManager() bool {
	changed := false
	for _, mr := range listOf[*resourcesv1alpha1.ManagedResource](k) {
		isRequested := mr.Annotations[v1beta1constants.GardenerOperation] == v1beta1constants.GardenerOperationReconcile
		switch {
		case mr.DeletionTimestamp != nil:
			changed = k.deleteApplied(mr) || changed
		case k.MayApply != nil && len(mr.Spec.SecretRefs) == 1 && !k.MayApply(mr.Spec.SecretRefs[0].Name):
		case isRequested || mr.Status.ObservedGeneration != mr.Generation:
			changed = k.apply(mr) || changed
		}
	}
	return changed
}

// deleteApplied deletes the applied objects. When all of them are gone, it removes the finalizer of the ManagedResource.
func (k *Cluster) deleteApplied(mr *resourcesv1alpha1.ManagedResource) bool {
	changed, left := false, false
	for _, reference := range mr.Status.Resources {
		if obj := k.referenced(reference); obj != nil && !ptr.Deref(mr.Spec.KeepObjects, false) {
			left = true
			changed = k.deleteObject(obj) || changed
		}
	}
	if left {
		return changed
	}
	return change(k, mr, func(mr *resourcesv1alpha1.ManagedResource) {
		controllerutil.RemoveFinalizer(mr, resourceManagerFinalizer)
	})
}

func (k *Cluster) referenced(reference resourcesv1alpha1.ObjectReference) client.Object {
	obj, err := k.api.get(reference.GroupVersionKind(), client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name})
	if err != nil {
		return nil
	}
	return obj
}

func (k *Cluster) apply(mr *resourcesv1alpha1.ManagedResource) bool {
	var references []resourcesv1alpha1.ObjectReference
	for _, obj := range k.payload(mr) {
		kind := k.api.kindOf(obj)
		references = append(references, resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		}})
		if err := k.applyOne(obj); err != nil {
			return change(k, mr, func(mr *resourcesv1alpha1.ManagedResource) {
				controllerutil.AddFinalizer(mr, resourceManagerFinalizer)
				setApplied(mr, k, gardencorev1beta1.ConditionFalse, "ApplyFailed", err.Error())
			})
		}
	}
	for _, before := range mr.Status.Resources {
		if obj := k.referenced(before); obj != nil && !slices.ContainsFunc(references, func(r resourcesv1alpha1.ObjectReference) bool {
			return r.ObjectReference == before.ObjectReference
		}) {
			k.deleteObject(obj)
		}
	}
	return change(k, mr, func(mr *resourcesv1alpha1.ManagedResource) {
		controllerutil.AddFinalizer(mr, resourceManagerFinalizer)
		delete(mr.Annotations, v1beta1constants.GardenerOperation)
		mr.Status.ObservedGeneration, mr.Status.Resources = mr.Generation, references
		setApplied(mr, k, gardencorev1beta1.ConditionTrue, "ApplySucceeded", "")
	})
}

func setApplied(mr *resourcesv1alpha1.ManagedResource, k *Cluster, status gardencorev1beta1.ConditionStatus, reason, message string) {
	now := metav1.NewTime(k.now())
	if len(mr.Status.Conditions) > 0 && mr.Status.Conditions[0].Status == status {
		now = mr.Status.Conditions[0].LastTransitionTime
	}
	mr.Status.Conditions = []gardencorev1beta1.Condition{{
		Type: resourcesv1alpha1.ResourcesApplied, Status: status, Reason: reason, Message: message, LastTransitionTime: now, LastUpdateTime: now,
	}}
}

// payloads caches decoded payloads by the name of their Secret, which identifies the content.
var payloads sync.Map

// payload returns copies of the objects of a ManagedResource.
func (k *Cluster) payload(mr *resourcesv1alpha1.ManagedResource) []client.Object {
	var objects []client.Object
	for _, obj := range k.decoded(mr) {
		objects = append(objects, obj.DeepCopyObject().(client.Object))
	}
	return objects
}

// decoded returns the cached objects of a ManagedResource. The caller must not modify them.
func (k *Cluster) decoded(mr *resourcesv1alpha1.ManagedResource) []client.Object {
	var objects []client.Object
	for _, reference := range mr.Spec.SecretRefs {
		known, found := payloads.Load(reference.Name)
		if !found {
			secret := getOrNil[*corev1.Secret](k, reference.Name)
			if secret == nil {
				continue
			}
			decoded, err := managedresources.ExtractObjectsFromSecret(serializer.NewCodecFactory(k.api.scheme).UniversalDeserializer(), secret)
			if err != nil {
				panic(err)
			}
			payloads.Store(reference.Name, decoded)
			known = decoded
		}
		objects = append(objects, known.([]client.Object)...)
	}
	return objects
}

// applyOne creates or replaces an object. It keeps the volumeClaimTemplates of a live StatefulSet. It rejects a change of the
// other immutable fields, like the API server.
func (k *Cluster) applyOne(obj client.Object) error {
	const managedBy = "resources.gardener.cloud/managed-by"
	labels := maps.Clone(obj.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[managedBy] = "gardener"
	obj.SetLabels(labels)
	statefulSet, isStatefulSet := obj.(*appsv1.StatefulSet)
	if isStatefulSet {
		metav1.SetMetaDataLabel(&statefulSet.Spec.Template.ObjectMeta, managedBy, "gardener")
	}
	current, err := k.api.get(k.api.kindOf(obj), client.ObjectKeyFromObject(obj))
	if err != nil {
		return k.api.create(obj, false)
	}
	if isStatefulSet {
		live := current.(*appsv1.StatefulSet)
		annotations := maps.Clone(live.Annotations) // gardener-resource-manager keeps annotations of others
		if annotations == nil {
			annotations = map[string]string{}
		}
		maps.Copy(annotations, statefulSet.Annotations)
		statefulSet.Annotations = annotations
		statefulSet.Spec.VolumeClaimTemplates = live.Spec.VolumeClaimTemplates
		before, after := etcdcluster.RenderingFor(live).Fixed, etcdcluster.RenderingFor(statefulSet).Fixed
		if !equality.Semantic.DeepEqual(before, after) {
			return fmt.Errorf("StatefulSet %q is invalid: updates to fields other than these are forbidden", statefulSet.Name)
		}
	}
	obj.SetResourceVersion("")
	obj.SetFinalizers(current.GetFinalizers())
	return k.api.replace(obj, false)
}
