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
	happened := false
	for _, mr := range every[*resourcesv1alpha1.ManagedResource](k) {
		isRequested := mr.Annotations[v1beta1constants.GardenerOperation] == v1beta1constants.GardenerOperationReconcile
		switch {
		case mr.DeletionTimestamp != nil:
			happened = k.unapply(mr) || happened
		case isRequested || mr.Status.ObservedGeneration != mr.Generation:
			happened = k.apply(mr) || happened
		}
	}
	return happened
}

// unapply deletes what was applied, and lets the ManagedResource go when all of it is gone.
func (k *Cluster) unapply(mr *resourcesv1alpha1.ManagedResource) bool {
	happened, left := false, false
	for _, reference := range mr.Status.Resources {
		if obj := k.referenced(reference); obj != nil && !ptr.Deref(mr.Spec.KeepObjects, false) {
			left = true
			happened = k.drop(obj) || happened
		}
	}
	if left {
		return happened
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
			k.drop(obj)
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

// payload are the objects of a ManagedResource, to be changed.
func (k *Cluster) payload(mr *resourcesv1alpha1.ManagedResource) []client.Object {
	var objects []client.Object
	for _, obj := range k.decoded(mr) {
		objects = append(objects, obj.DeepCopyObject().(client.Object))
	}
	return objects
}

// decoded are the objects of a ManagedResource. The caller must not change them.
func (k *Cluster) decoded(mr *resourcesv1alpha1.ManagedResource) []client.Object {
	var objects []client.Object
	for _, reference := range mr.Spec.SecretRefs {
		known, found := payloads.Load(reference.Name)
		if !found {
			secret := one[*corev1.Secret](k, reference.Name)
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

// applyOne replaces an object by what it is to be. Of a StatefulSet it keeps the claim templates of the live one, and the API
// server refuses other changes of fields that cannot be changed.
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
