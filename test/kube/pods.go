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

// ordinalOf returns the ordinal in the name of a pod.
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

// hasReadyCondition returns true if the pod has the condition Ready with any status.
func hasReadyCondition(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
}

// claimOf returns the PersistentVolumeClaim of a pod, or nil if the pod has none or the claim does not exist.
func (k *Cluster) claimOf(pod *corev1.Pod) *corev1.PersistentVolumeClaim {
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			return getOrNil[*corev1.PersistentVolumeClaim](k, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return nil
}

// claimController simulates the protection of PersistentVolumeClaims and the expansion of volumes. A claim that is being deleted keeps
// its finalizer until no scheduled pod uses it.
func (k *Cluster) claimController() bool {
	changed := false
	for _, claim := range listOf[*corev1.PersistentVolumeClaim](k) {
		inUse := slices.ContainsFunc(listOf[*corev1.Pod](k), func(pod *corev1.Pod) bool {
			used := k.claimOf(pod)
			return pod.Spec.NodeName != "" && used != nil && used.Name == claim.Name
		})
		switch {
		case claim.DeletionTimestamp != nil && !inUse:
			delete(k.memberIDs, claim.Spec.VolumeName)
			changed = change(k, claim, func(claim *corev1.PersistentVolumeClaim) { claim.Finalizers = nil }) || changed
		case claim.Status.Phase == corev1.ClaimBound && !equality.Semantic.DeepEqual(claim.Status.Capacity, claim.Spec.Resources.Requests):
			changed = change(k, claim, func(claim *corev1.PersistentVolumeClaim) {
				claim.Status.Capacity = claim.Spec.Resources.Requests.DeepCopy()
			}) || changed
		}
	}
	return k.reclaimVolumes() || changed
}

// reclaimVolumes simulates the provisioner, which deletes volumes with the reclaim policy Delete whose claims do not exist any more.
func (k *Cluster) reclaimVolumes() bool {
	changed := false
	for _, volume := range listOf[*corev1.PersistentVolume](k) {
		reference := volume.Spec.ClaimRef
		if reference == nil || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			continue
		}
		if claim := getOrNil[*corev1.PersistentVolumeClaim](k, reference.Name); claim == nil || claim.UID != reference.UID {
			changed = k.deleteObject(volume) || changed
		}
	}
	return changed
}

func (k *Cluster) volume(name string) *corev1.PersistentVolume {
	for _, volume := range listOf[*corev1.PersistentVolume](k) {
		if volume.Name == name {
			return volume
		}
	}
	return nil
}

// scheduler binds each pod to the node of its volume. Without a volume, it binds the pod to the first node without a pod.
func (k *Cluster) scheduler() bool {
	changed := false
	for _, pod := range listOf[*corev1.Pod](k) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		claim := k.claimOf(pod)
		node := k.nodeFor(claim)
		if node == "" {
			changed = change(k, pod, func(pod *corev1.Pod) {
				setCondition(k, pod, corev1.PodScheduled, false, "no node fits")
			}) || changed
			continue
		}
		if claim.Spec.VolumeName == "" {
			k.bind(claim, node)
		}
		changed = change(k, pod, func(pod *corev1.Pod) {
			pod.Spec.NodeName = node
			setCondition(k, pod, corev1.PodScheduled, true, "")
		}) || changed
	}
	return changed
}

// nodeFor returns the name of a node on which a pod with the claim can run. It returns an empty string if no node fits.
func (k *Cluster) nodeFor(claim *corev1.PersistentVolumeClaim) string {
	if claim == nil || claim.DeletionTimestamp != nil {
		return ""
	}
	bound := k.volume(claim.Spec.VolumeName)
	for _, node := range listOf[*corev1.Node](k) {
		taken := slices.ContainsFunc(listOf[*corev1.Pod](k), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node.Name })
		if bound == nil && claim.Spec.VolumeName == "" && !taken || bound != nil && nodeOf(bound) == node.Name {
			return node.Name
		}
	}
	return ""
}

func (k *Cluster) hasNode(name string) bool {
	return slices.ContainsFunc(listOf[*corev1.Node](k), func(node *corev1.Node) bool { return node.Name == name })
}

func nodeOf(volume *corev1.PersistentVolume) string {
	return volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
}

func (k *Cluster) bind(claim *corev1.PersistentVolumeClaim, node string) {
	volume := &corev1.PersistentVolume{}
	volume.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "csi.example.com"}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	k.mustCreate(volume, "pv-"+string(claim.UID))
	change(k, claim, func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.VolumeName, claim.Status.Phase = volume.Name, corev1.ClaimBound
		claim.Status.Capacity = claim.Spec.Resources.Requests.DeepCopy()
	})
}

// kubelets starts the containers of scheduled pods. It removes the finalizer of pods that are being deleted, and deletes pods whose node
// no longer exists.
func (k *Cluster) kubelets() bool {
	changed := false
	for _, pod := range listOf[*corev1.Pod](k) {
		node := k.hasNode(pod.Spec.NodeName)
		switch {
		case pod.Spec.NodeName != "" && !node:
			k.deleteObject(pod)
			fallthrough
		case pod.DeletionTimestamp != nil:
			if left := getOrNil[*corev1.Pod](k, pod.Name); left != nil {
				changed = change(k, left, func(pod *corev1.Pod) { controllerutil.RemoveFinalizer(pod, kubeletFinalizer) }) || changed
			}
		case node && pod.Status.PodIP == "":
			changed = change(k, pod, k.start) || changed
		}
	}
	return changed
}

func (k *Cluster) start(pod *corev1.Pod) {
	k.counter++
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP = fmt.Sprintf("10.0.%d.%d", k.counter/250, k.counter%250)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	k.startSizes[pod.UID] = k.initialSize(pod)
	for _, container := range pod.Spec.Containers {
		status := corev1.ContainerStatus{Name: container.Name}
		if k.brokenImages[container.Image] {
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

// evict deletes the pod if its PodDisruptionBudgets allow the eviction.
func (k *Cluster) evict(key client.ObjectKey, eviction *policyv1.Eviction) error {
	pod := getOrNil[*corev1.Pod](k, key.Name)
	if pod == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	for _, budget := range listOf[*policyv1.PodDisruptionBudget](k) {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			return err
		}
		ready := 0
		for _, other := range listOf[*corev1.Pod](k) {
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
