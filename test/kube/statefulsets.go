// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// kubeletFinalizer stands for the time that a kubelet needs to stop a pod.
const kubeletFinalizer = "example.com/kubelet"

// statefulSetController makes and removes pods all at once (Parallel), and replaces none by itself (OnDelete).
func (k *Cluster) statefulSetController() bool {
	happened := false
	for _, statefulSet := range every[*appsv1.StatefulSet](k) {
		if statefulSet.DeletionTimestamp == nil {
			happened = k.control(statefulSet) || happened
		}
	}
	return happened
}

func (k *Cluster) control(statefulSet *appsv1.StatefulSet) bool {
	revision := statefulSet.Status.UpdateRevision
	if statefulSet.Status.ObservedGeneration != statefulSet.Generation {
		revision = RevisionOf(statefulSet)
	}
	replicas := int(ptr.Deref(statefulSet.Spec.Replicas, 1))
	happened := false
	var live, ready, updated int32
	for _, pod := range k.podsOf(statefulSet) {
		switch {
		case metav1.GetControllerOf(pod) == nil:
			happened = change(k, pod, func(pod *corev1.Pod) {
				pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(statefulSet, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			}) || happened
		case ordinalOf(pod) >= replicas:
			k.checkStop(pod)
			happened = k.drop(pod) || happened
		}
		live++
		if isReady(pod) {
			ready++
		}
		if pod.Labels[appsv1.ControllerRevisionHashLabelKey] == revision {
			updated++
		}
	}
	for ordinal := range replicas {
		if one[*corev1.Pod](k, fmt.Sprintf("%s-%d", statefulSet.Name, ordinal)) == nil {
			happened = k.makePod(statefulSet, ordinal, revision) || happened
		}
	}
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: statefulSet.Generation, UpdateRevision: revision, Replicas: live, ReadyReplicas: ready, UpdatedReplicas: updated,
	}
	if equality.Semantic.DeepEqual(statefulSet.Status, status) {
		return happened
	}
	return change(k, statefulSet, func(statefulSet *appsv1.StatefulSet) { statefulSet.Status = status }) || happened
}

// podsOf are the pods that a StatefulSet owns or would adopt.
func (k *Cluster) podsOf(statefulSet *appsv1.StatefulSet) []*corev1.Pod {
	selector, err := metav1.LabelSelectorAsSelector(statefulSet.Spec.Selector)
	if err != nil {
		panic(err)
	}
	return slices.DeleteFunc(every[*corev1.Pod](k), func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		return owner != nil && owner.UID != statefulSet.UID || !selector.Matches(labelsOf(pod))
	})
}

func (k *Cluster) makePod(statefulSet *appsv1.StatefulSet, ordinal int, revision string) bool {
	pod := &corev1.Pod{}
	statefulSet.Spec.Template.ObjectMeta.DeepCopyInto(&pod.ObjectMeta)
	statefulSet.Spec.Template.Spec.DeepCopyInto(&pod.Spec)
	pod.Namespace, pod.Name = statefulSet.Namespace, fmt.Sprintf("%s-%d", statefulSet.Name, ordinal)
	pod.Labels = maps.Clone(pod.Labels)
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	pod.Finalizers = []string{kubeletFinalizer}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(statefulSet, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	for i := range statefulSet.Spec.VolumeClaimTemplates {
		claim := statefulSet.Spec.VolumeClaimTemplates[i].DeepCopy()
		name := fmt.Sprintf("%s-%s-%d", claim.Name, statefulSet.Name, ordinal)
		if existing := one[*corev1.PersistentVolumeClaim](k, name); existing == nil {
			claim.Namespace, claim.Name, claim.Finalizers = statefulSet.Namespace, name, []string{"kubernetes.io/pvc-protection"}
			claim.Labels = maps.Clone(statefulSet.Spec.Selector.MatchLabels)
			if err := k.api.create(claim, false); err != nil {
				return false
			}
		} else if existing.DeletionTimestamp != nil {
			return false // made when the old one is gone
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: statefulSet.Spec.VolumeClaimTemplates[i].Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	if err := k.api.create(pod, false); err != nil {
		return false
	}
	k.PodsMade++
	return true
}

// garbageCollector orphans the pods of StatefulSets that are deleted without them, and deletes what has lost its owner.
func (k *Cluster) garbageCollector() bool {
	happened := false
	for _, statefulSet := range every[*appsv1.StatefulSet](k) {
		if statefulSet.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(statefulSet, metav1.FinalizerOrphanDependents) {
			continue
		}
		for _, pod := range k.podsOf(statefulSet) {
			change(k, pod, func(pod *corev1.Pod) { pod.OwnerReferences = nil })
		}
		happened = change(k, statefulSet, func(statefulSet *appsv1.StatefulSet) { statefulSet.Finalizers = nil }) || happened
	}
	for _, pod := range every[*corev1.Pod](k) {
		owner := metav1.GetControllerOf(pod)
		if owner == nil {
			continue
		}
		if statefulSet := one[*appsv1.StatefulSet](k, owner.Name); statefulSet == nil || statefulSet.UID != owner.UID {
			happened = k.drop(pod) || happened
		}
	}
	return happened
}

// RevisionOf names what pods of a StatefulSet are made from.
func RevisionOf(statefulSet *appsv1.StatefulSet) string {
	encoded, err := json.Marshal(statefulSet.Spec.Template)
	if err != nil {
		panic(err)
	}
	hash := fnv.New32a()
	_, _ = hash.Write(encoded)
	return fmt.Sprintf("%s-%x", statefulSet.Name, hash.Sum32())
}
