// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

func (k *Cluster) reportViolation(format string, args ...any) {
	k.Violations = append(k.Violations, k.now().Format("15:04:05")+" "+fmt.Sprintf(format, args...))
}

// reportViolationOnce reports a violation only once, even if it persists.
func (k *Cluster) reportViolationOnce(format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(k.Violations, func(known string) bool { return strings.HasSuffix(known, message) }) {
		k.reportViolation("%s", message)
	}
}

// checkDelete checks that the operator may delete the object.
func (k *Cluster) checkDelete(kind string, key client.ObjectKey, options client.DeleteOptions) {
	etcd := k.EtcdObject()
	if etcd == nil {
		return
	}
	if etcd.DeletionTimestamp != nil {
		if kind == "PersistentVolumeClaim" && etcd.Spec.Backup.Store != nil {
			k.checkStored("claim " + key.Name + " is deleted")
		}
		return
	}
	switch kind {
	case "Lease":
		k.checkLease(key.Name)
	case "Pod":
		k.checkPod(key.Name, options)
	case "PersistentVolumeClaim":
		k.checkClaim(key.Name)
	}
}

// voters returns the number of voting members that run and that a quorum does not reject, and the number of all voting members.
func (k *Cluster) voters() (alive, all int) {
	for _, member := range k.etcd.Members() {
		if member.Learner {
			continue
		}
		all++
		pod := getOrNil[*corev1.Pod](k, member.Name)
		if k.external[member.ID] || k.hasMember(pod, &member) && k.reachesQuorum(pod) {
			alive++
		}
	}
	return alive, all
}

func (k *Cluster) checkPod(name string, options client.DeleteOptions) {
	pod, member := getOrNil[*corev1.Pod](k, name), k.memberOf(name)
	if pod == nil || member == nil || options.Preconditions == nil || ptr.Deref(options.Preconditions.UID, "") != pod.UID {
		return // the API server rejects the deletion
	}
	alive, all := k.voters()
	if all > 1 && !member.Learner && k.hasMember(pod, member) && etcdcluster.IsQuorate(alive, all) && alive < all {
		k.reportViolation("pod %s is deleted while %d of %d voting members run", name, alive, all)
	}
}

func (k *Cluster) checkClaim(name string) {
	claim := getOrNil[*corev1.PersistentVolumeClaim](k, name)
	if claim == nil {
		return
	}
	volume := k.volume(claim.Spec.VolumeName)
	isLost := volume == nil || !k.hasNode(nodeOf(volume))
	alive, all := k.voters()
	isReplaced, isRestored := isLost && etcdcluster.IsQuorate(alive, all), alive == 0 && k.isRestoreVerified()
	if isRestored && !isReplaced && volume != nil && volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		k.reportViolation("claim %s is deleted for a restore, and its volume %s is not retained", name, volume.Name)
	}
	if !isReplaced && !isRestored && !k.isRemoved(claim) && !k.isDiffering(claim) {
		k.reportViolation("claim %s is deleted while %d of %d voting members run (volume lost: %t)", name, alive, all, isLost)
	}
}

// isDiffering returns true for the claim of a member with other data than a quorum of voting members that run. Clients do not use the member, it does not
// lead, and its volume stays.
func (k *Cluster) isDiffering(claim *corev1.PersistentVolumeClaim) bool {
	id, volume := k.memberIDs[claim.Spec.VolumeName], k.volume(claim.Spec.VolumeName)
	correct, all := 0, 0
	name := ""
	for _, member := range k.etcd.Members() {
		if member.ID == id {
			name = member.Name
		}
		if member.Learner {
			continue
		}
		all++
		if k.etcd.Hash(member.ID) == 0 && k.hasMember(getOrNil[*corev1.Pod](k, member.Name), &member) {
			correct++
		}
	}
	pod := getOrNil[*corev1.Pod](k, name)
	if pod == nil || k.etcd.Hash(id) == 0 {
		return false
	}

	return !k.isSelected(pod) && k.etcd.Leader() != id && etcdcluster.IsQuorate(correct, all) && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
}

// isSelected returns true for a pod that the client Service selects as soon as the pod is ready.
func (k *Cluster) isSelected(pod *corev1.Pod) bool {
	service := getOrNil[*corev1.Service](k, k.Etcd.Name+"-client")
	return service != nil && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))
}

// Unselected returns the names of the pods of members that the client Service does not select.
func (k *Cluster) Unselected() []string {
	var names []string
	for _, pod := range listOf[*corev1.Pod](k) {
		if pod.Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameStatefulSet && !k.isSelected(pod) {
			names = append(names, pod.Name)
		}
	}
	return names
}

// checkRemoval checks that the client Service sends no new connections to a member that the operator removes, and that it selects another ready pod.
func (k *Cluster) checkRemoval(id uint64) {
	ready := 0
	for _, member := range k.etcd.Members() {
		pod := getOrNil[*corev1.Pod](k, member.Name)
		switch {
		case pod == nil || !isReady(pod) || !k.isSelected(pod):
		case member.ID == id:
			k.reportViolation("member %s is removed, and the client Service selects its pod", member.Name)
		default:
			ready++
		}
	}
	if ready == 0 {
		k.reportViolation("member %x is removed, and the client Service selects no ready pod", id)
	}
}

// isRemoved returns true for the claim of a member that was removed from etcd, if all other members run. Its sidecar may have added it again as a
// learner.
func (k *Cluster) isRemoved(claim *corev1.PersistentVolumeClaim) bool {
	id := k.memberIDs[claim.Spec.VolumeName]
	for _, member := range k.etcd.Members() {
		if member.ID == id && !member.Learner {
			return false
		}
	}
	alive, all := k.voters()
	return id != 0 && alive == all && all > 0
}

// checkLease checks that the lease of a member is not deleted while the claim of the member holds data.
func (k *Cluster) checkLease(name string) {
	for _, claim := range listOf[*corev1.PersistentVolumeClaim](k) {
		if id := k.memberIDs[claim.Spec.VolumeName]; id != 0 && strings.HasSuffix(claim.Name, "-"+name) {
			k.reportViolation("lease %s is deleted while claim %s holds the data of member %x", name, claim.Name, id)
		}
	}
}
