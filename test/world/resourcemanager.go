// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package world

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

// resourceManager applies ManagedResources as gardener-resource-manager does: when their generation is new or the operation
// annotation asks for it, and never because an object that it applied has changed.
func (w *World) resourceManager() bool {
	happened := false
	for _, mr := range every[*resourcesv1alpha1.ManagedResource](w) {
		isAsked := mr.Annotations[v1beta1constants.GardenerOperation] == v1beta1constants.GardenerOperationReconcile
		switch {
		case mr.DeletionTimestamp != nil:
			happened = w.unapply(mr) || happened
		case isAsked || mr.Status.ObservedGeneration != mr.Generation:
			happened = w.apply(mr) || happened
		}
	}
	return happened
}

// unapply deletes what was applied, and lets the ManagedResource go when all of it is gone.
func (w *World) unapply(mr *resourcesv1alpha1.ManagedResource) bool {
	happened, left := false, false
	for _, reference := range mr.Status.Resources {
		if obj := w.referenced(reference); obj != nil && !ptr.Deref(mr.Spec.KeepObjects, false) {
			left = true
			happened = w.drop(obj) || happened
		}
	}
	if left {
		return happened
	}
	return change(w, mr, func(mr *resourcesv1alpha1.ManagedResource) {
		controllerutil.RemoveFinalizer(mr, resourceManagerFinalizer)
	})
}

func (w *World) referenced(reference resourcesv1alpha1.ObjectReference) client.Object {
	obj, err := w.api.get(reference.GroupVersionKind(), client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name})
	if err != nil {
		return nil
	}
	return obj
}

func (w *World) apply(mr *resourcesv1alpha1.ManagedResource) bool {
	var references []resourcesv1alpha1.ObjectReference
	for _, obj := range w.payload(mr) {
		kind := w.api.kindOf(obj)
		references = append(references, resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		}})
		if err := w.applyOne(obj); err != nil {
			return change(w, mr, func(mr *resourcesv1alpha1.ManagedResource) {
				controllerutil.AddFinalizer(mr, resourceManagerFinalizer)
				setApplied(mr, w, gardencorev1beta1.ConditionFalse, "ApplyFailed", err.Error())
			})
		}
	}
	for _, before := range mr.Status.Resources {
		if obj := w.referenced(before); obj != nil && !slices.ContainsFunc(references, func(r resourcesv1alpha1.ObjectReference) bool {
			return r.ObjectReference == before.ObjectReference
		}) {
			w.drop(obj)
		}
	}
	return change(w, mr, func(mr *resourcesv1alpha1.ManagedResource) {
		controllerutil.AddFinalizer(mr, resourceManagerFinalizer)
		delete(mr.Annotations, v1beta1constants.GardenerOperation)
		mr.Status.ObservedGeneration, mr.Status.Resources = mr.Generation, references
		setApplied(mr, w, gardencorev1beta1.ConditionTrue, "ApplySucceeded", "")
	})
}

func setApplied(mr *resourcesv1alpha1.ManagedResource, w *World, status gardencorev1beta1.ConditionStatus, reason, message string) {
	now := metav1.NewTime(w.now())
	if len(mr.Status.Conditions) > 0 && mr.Status.Conditions[0].Status == status {
		now = mr.Status.Conditions[0].LastTransitionTime
	}
	mr.Status.Conditions = []gardencorev1beta1.Condition{{
		Type: resourcesv1alpha1.ResourcesApplied, Status: status, Reason: reason, Message: message, LastTransitionTime: now, LastUpdateTime: now,
	}}
}

// payloads remembers what was decoded, by the name of the Secret, which stands for its content.
var payloads sync.Map

// payload are the objects of a ManagedResource, to be changed.
func (w *World) payload(mr *resourcesv1alpha1.ManagedResource) []client.Object {
	var objects []client.Object
	for _, obj := range w.decoded(mr) {
		objects = append(objects, obj.DeepCopyObject().(client.Object))
	}
	return objects
}

// decoded are the objects of a ManagedResource, which nobody may change.
func (w *World) decoded(mr *resourcesv1alpha1.ManagedResource) []client.Object {
	var objects []client.Object
	for _, reference := range mr.Spec.SecretRefs {
		known, found := payloads.Load(reference.Name)
		if !found {
			secret := one[*corev1.Secret](w, reference.Name)
			if secret == nil {
				continue
			}
			decoded, err := managedresources.ExtractObjectsFromSecret(serializer.NewCodecFactory(w.api.scheme).UniversalDeserializer(), secret)
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
func (w *World) applyOne(obj client.Object) error {
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
	current, err := w.api.get(w.api.kindOf(obj), client.ObjectKeyFromObject(obj))
	if err != nil {
		return w.api.create(obj, false)
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
	return w.api.replace(obj, false)
}
