// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

func labelsOf(obj client.Object) labels.Set { return obj.GetLabels() }

// ordinalOf is the number at the end of a pod's name.
func ordinalOf(pod *corev1.Pod) int {
	ordinal, err := strconv.Atoi(pod.Name[strings.LastIndex(pod.Name, "-")+1:])
	if err != nil {
		panic(err)
	}
	return ordinal
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// isTold is true when the pod has been said to be ready or not.
func hasReadyCondition(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
}

// claimOf is the claim that a pod names; nil when there is none.
func (k *Cluster) claimOf(pod *corev1.Pod) *corev1.PersistentVolumeClaim {
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			return one[*corev1.PersistentVolumeClaim](k, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return nil
}

// claimController deletes claims that are being deleted and that no pod on a node uses, and expands volumes in place.
func (k *Cluster) claimController() bool {
	happened := false
	for _, claim := range every[*corev1.PersistentVolumeClaim](k) {
		inUse := slices.ContainsFunc(every[*corev1.Pod](k), func(pod *corev1.Pod) bool {
			used := k.claimOf(pod)
			return pod.Spec.NodeName != "" && used != nil && used.Name == claim.Name
		})
		switch {
		case claim.DeletionTimestamp != nil && !inUse:
			delete(k.data, claim.Spec.VolumeName)
			happened = change(k, claim, func(claim *corev1.PersistentVolumeClaim) { claim.Finalizers = nil }) || happened
			if volume := k.volume(claim.Spec.VolumeName); volume != nil {
				happened = k.drop(volume) || happened
			}
		case claim.Status.Phase == corev1.ClaimBound && !equality.Semantic.DeepEqual(claim.Status.Capacity, claim.Spec.Resources.Requests):
			happened = change(k, claim, func(claim *corev1.PersistentVolumeClaim) {
				claim.Status.Capacity = claim.Spec.Resources.Requests.DeepCopy()
			}) || happened
		}
	}
	return happened
}

func (k *Cluster) volume(name string) *corev1.PersistentVolume {
	for _, volume := range every[*corev1.PersistentVolume](k) {
		if volume.Name == name {
			return volume
		}
	}
	return nil
}

// scheduler gives pods a node: that of their volume, else the first one without a member.
func (k *Cluster) scheduler() bool {
	happened := false
	for _, pod := range every[*corev1.Pod](k) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		claim := k.claimOf(pod)
		node := k.nodeFor(claim)
		if node == "" {
			happened = change(k, pod, func(pod *corev1.Pod) {
				setCondition(k, pod, corev1.PodScheduled, false, "no node fits")
			}) || happened
			continue
		}
		if claim.Spec.VolumeName == "" {
			k.bind(claim, node)
		}
		happened = change(k, pod, func(pod *corev1.Pod) {
			pod.Spec.NodeName = node
			setCondition(k, pod, corev1.PodScheduled, true, "")
		}) || happened
	}
	return happened
}

// nodeFor names the node on which a pod with the claim can run; empty: none.
func (k *Cluster) nodeFor(claim *corev1.PersistentVolumeClaim) string {
	if claim == nil || claim.DeletionTimestamp != nil {
		return ""
	}
	bound := k.volume(claim.Spec.VolumeName)
	for _, node := range every[*corev1.Node](k) {
		taken := slices.ContainsFunc(every[*corev1.Pod](k), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node.Name })
		if bound == nil && claim.Spec.VolumeName == "" && !taken || bound != nil && nodeOf(bound) == node.Name {
			return node.Name
		}
	}
	return ""
}

func (k *Cluster) hasNode(name string) bool {
	return slices.ContainsFunc(every[*corev1.Node](k), func(node *corev1.Node) bool { return node.Name == name })
}

func nodeOf(volume *corev1.PersistentVolume) string {
	return volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
}

func (k *Cluster) bind(claim *corev1.PersistentVolumeClaim, node string) {
	volume := &corev1.PersistentVolume{}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	k.mustCreate(volume, "pv-"+string(claim.UID))
	change(k, claim, func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.VolumeName, claim.Status.Phase = volume.Name, corev1.ClaimBound
		claim.Status.Capacity = claim.Spec.Resources.Requests.DeepCopy()
	})
}

// kubelets start containers, and let pods go that are being deleted or whose node is gone.
func (k *Cluster) kubelets() bool {
	happened := false
	for _, pod := range every[*corev1.Pod](k) {
		node := k.hasNode(pod.Spec.NodeName)
		switch {
		case pod.Spec.NodeName != "" && !node:
			k.drop(pod)
			fallthrough
		case pod.DeletionTimestamp != nil:
			if left := one[*corev1.Pod](k, pod.Name); left != nil {
				happened = change(k, left, func(pod *corev1.Pod) { controllerutil.RemoveFinalizer(pod, kubeletFinalizer) }) || happened
			}
		case node && pod.Status.PodIP == "":
			happened = change(k, pod, k.start) || happened
		}
	}
	return happened
}

func (k *Cluster) start(pod *corev1.Pod) {
	k.counter++
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP = fmt.Sprintf("10.0.%d.%d", k.counter/250, k.counter%250)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	k.sizes[pod.UID] = k.initialSize(pod)
	for _, container := range pod.Spec.Containers {
		status := corev1.ContainerStatus{Name: container.Name}
		if k.broken[container.Image] {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
		} else {
			status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(k.now())}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
}

func setCondition(k *Cluster, pod *corev1.Pod, conditionType corev1.PodConditionType, is bool, message string) {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type != conditionType {
			continue
		}
		if condition.Status != status {
			condition.LastTransitionTime = metav1.NewTime(k.now())
		}
		condition.Status, condition.Message = status, message
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: conditionType, Status: status, Message: message, LastTransitionTime: metav1.NewTime(k.now())})
}

// evict weighs the PodDisruptionBudget, and deletes the pod.
func (k *Cluster) evict(key client.ObjectKey, eviction *policyv1.Eviction) error {
	pod := one[*corev1.Pod](k, key.Name)
	if pod == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	for _, budget := range every[*policyv1.PodDisruptionBudget](k) {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			return err
		}
		ready := 0
		for _, other := range every[*corev1.Pod](k) {
			if other.DeletionTimestamp == nil && isReady(other) && selector.Matches(labelsOf(other)) {
				ready++
			}
		}
		if selector.Matches(labelsOf(pod)) && isReady(pod) && ready-1 < budget.Spec.MinAvailable.IntValue() {
			return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		}
	}
	options := client.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		options.Preconditions = eviction.DeleteOptions.Preconditions
	}
	k.checkDelete("Pod", key, options)
	return k.api.remove(corev1.SchemeGroupVersion.WithKind("Pod"), key, options)
}
