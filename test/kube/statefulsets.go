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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// kubeletFinalizer simulates the time that the kubelet needs to stop a pod.
const kubeletFinalizer = "example.com/kubelet"

// statefulSetController creates and deletes all pods in parallel (podManagementPolicy Parallel). It does not replace pods when the
// template changes (updateStrategy OnDelete).
func (k *Cluster) statefulSetController() bool {
	changed := false
	for _, statefulSet := range listOf[*appsv1.StatefulSet](k) {
		if statefulSet.DeletionTimestamp == nil {
			changed = k.reconcileStatefulSet(statefulSet) || changed
		}
	}
	return changed
}

func (k *Cluster) reconcileStatefulSet(statefulSet *appsv1.StatefulSet) bool {
	revision := statefulSet.Status.UpdateRevision
	if statefulSet.Status.ObservedGeneration != statefulSet.Generation {
		revision = RevisionOf(statefulSet)
	}
	replicas := int(ptr.Deref(statefulSet.Spec.Replicas, 1))
	changed := false
	var live, ready, updated int32
	for _, pod := range k.podsOf(statefulSet) {
		switch {
		case metav1.GetControllerOf(pod) == nil:
			changed = change(k, pod, func(pod *corev1.Pod) {
				pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(statefulSet, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			}) || changed
		case ordinalOf(pod) >= replicas:
			k.checkStop(pod)
			changed = k.deleteObject(pod) || changed
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
		if getOrNil[*corev1.Pod](k, fmt.Sprintf("%s-%d", statefulSet.Name, ordinal)) == nil {
			changed = k.createPod(statefulSet, ordinal, revision) || changed
		}
	}
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: statefulSet.Generation, UpdateRevision: revision, Replicas: live, ReadyReplicas: ready, UpdatedReplicas: updated,
	}
	if equality.Semantic.DeepEqual(statefulSet.Status, status) {
		return changed
	}
	return change(k, statefulSet, func(statefulSet *appsv1.StatefulSet) { statefulSet.Status = status }) || changed
}

// podsOf returns the pods that the StatefulSet owns or would adopt.
func (k *Cluster) podsOf(statefulSet *appsv1.StatefulSet) []*corev1.Pod {
	selector, err := metav1.LabelSelectorAsSelector(statefulSet.Spec.Selector)
	if err != nil {
		panic(err)
	}
	return slices.DeleteFunc(listOf[*corev1.Pod](k), func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		return owner != nil && owner.UID != statefulSet.UID || !selector.Matches(labelsOf(pod))
	})
}

func (k *Cluster) createPod(statefulSet *appsv1.StatefulSet, ordinal int, revision string) bool {
	pod := &corev1.Pod{}
	statefulSet.Spec.Template.ObjectMeta.DeepCopyInto(&pod.ObjectMeta)
	statefulSet.Spec.Template.Spec.DeepCopyInto(&pod.Spec)
	pod.Namespace, pod.Name = statefulSet.Namespace, fmt.Sprintf("%s-%d", statefulSet.Name, ordinal)
	pod.Labels = maps.Clone(pod.Labels)
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Finalizers = []string{kubeletFinalizer}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(statefulSet, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	for i := range statefulSet.Spec.VolumeClaimTemplates {
		claim := statefulSet.Spec.VolumeClaimTemplates[i].DeepCopy()
		name := fmt.Sprintf("%s-%s-%d", claim.Name, statefulSet.Name, ordinal)
		if existing := getOrNil[*corev1.PersistentVolumeClaim](k, name); existing == nil {
			claim.Namespace, claim.Name, claim.Finalizers = statefulSet.Namespace, name, []string{"kubernetes.io/pvc-protection"}
			claim.Labels = maps.Clone(statefulSet.Spec.Selector.MatchLabels)
			if err := k.api.create(claim, false); err != nil {
				return false
			}
		} else if existing.DeletionTimestamp != nil {
			return false // the claim is created when the old claim is gone
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: statefulSet.Spec.VolumeClaimTemplates[i].Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	if err := k.api.create(pod, false); err != nil {
		return false
	}
	k.PodsCreated++
	return true
}

// garbageCollector orphans the pods of StatefulSets with the finalizer orphan, and deletes pods whose owner does not exist. It orphans only the
// pods that it knew before: the watches of the real one lag too.
func (k *Cluster) garbageCollector() bool {
	changed := k.orphanPods()
	k.owners = map[types.UID]types.UID{}
	for _, pod := range listOf[*corev1.Pod](k) {
		if owner := metav1.GetControllerOf(pod); owner != nil {
			k.owners[pod.UID] = owner.UID
		}
	}

	return k.deleteOwnerless() || changed
}

// orphanPods removes the owner references of the pods of StatefulSets with the finalizer orphan, and the finalizer.
func (k *Cluster) orphanPods() bool {
	changed := false
	for _, statefulSet := range listOf[*appsv1.StatefulSet](k) {
		if statefulSet.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(statefulSet, metav1.FinalizerOrphanDependents) {
			continue
		}
		for _, pod := range k.podsOf(statefulSet) {
			if k.owners[pod.UID] == statefulSet.UID {
				change(k, pod, func(pod *corev1.Pod) { pod.OwnerReferences = nil })
			}
		}
		changed = change(k, statefulSet, func(statefulSet *appsv1.StatefulSet) {
			controllerutil.RemoveFinalizer(statefulSet, metav1.FinalizerOrphanDependents)
		}) || changed
	}

	return changed
}

// deleteOwnerless deletes the pods whose owner does not exist.
func (k *Cluster) deleteOwnerless() bool {
	changed := false
	for _, pod := range listOf[*corev1.Pod](k) {
		owner := metav1.GetControllerOf(pod)
		if owner == nil {
			continue
		}
		if owner.Kind == "Job" {
			if job := getOrNil[*batchv1.Job](k, owner.Name); job == nil || job.UID != owner.UID {
				changed = k.deleteObject(pod) || changed
			}
			continue
		}
		if statefulSet := getOrNil[*appsv1.StatefulSet](k, owner.Name); statefulSet == nil || statefulSet.UID != owner.UID {
			changed = k.deleteObject(pod) || changed
		}
	}
	return changed
}

// RevisionOf returns the name of the revision of the pod template of a StatefulSet.
func RevisionOf(statefulSet *appsv1.StatefulSet) string {
	encoded, err := json.Marshal(statefulSet.Spec.Template)
	if err != nil {
		panic(err)
	}
	hash := fnv.New32a()
	_, _ = hash.Write(encoded)
	return fmt.Sprintf("%s-%x", statefulSet.Name, hash.Sum32())
}
