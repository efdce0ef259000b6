// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// IsOwned is true for an object that belongs to the Etcd. Either the Etcd is its controller, or it has the labels of the Etcd and any
// owner reference to it. Only the UID of a reference counts.
func IsOwned(object metav1.Object, etcd *druidv1alpha1.Etcd) bool {
	if metav1.IsControlledBy(object, etcd) {
		return true
	}

	return HasLabelsOf(object, etcd) && slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == etcd.UID })
}

// IsOwnedByPrevious is true for an object whose controller is a previous Etcd: it has the same name and another UID, and no
// longer exists.
func IsOwnedByPrevious(object metav1.Object, etcd *druidv1alpha1.Etcd) bool {
	owner := metav1.GetControllerOf(object)

	return owner != nil && owner.UID != etcd.UID && owner.Name == etcd.Name && owner.Kind == "Etcd" && hasGroup(owner.APIVersion)
}

// IsManagedFor is true for an object that the operator may change and delete for the Etcd. The Etcd or a previous one of its name
// owns it.
func IsManagedFor(object metav1.Object, etcd *druidv1alpha1.Etcd) bool {
	return IsOwned(object, etcd) || IsOwnedByPrevious(object, etcd)
}

// HasLabelsOf is true for an object with the labels that the operator and etcd-druid give to the objects of the Etcd. Every user can set
// labels: they decide only about objects that have no owner, such as PersistentVolumeClaims.
func HasLabelsOf(object metav1.Object, etcd *druidv1alpha1.Etcd) bool {
	labels := object.GetLabels()
	for key, value := range DefaultLabels(etcd) {
		if labels[key] != value {
			return false
		}
	}

	return true
}

// Labels of the first versions of etcd-druid. A claim keeps the labels with which it was created.
const (
	firstNameLabel     = "name"
	firstNameValue     = "etcd"
	firstInstanceLabel = "instance"
)

// IsClaimOf is true for a PersistentVolumeClaim of the Etcd or of a previous Etcd with its name. A claim has no owner. It has
// the labels of the selector of its StatefulSet, in the current form or in that of the first versions of etcd-druid.
func IsClaimOf(claim *corev1.PersistentVolumeClaim, etcd *druidv1alpha1.Etcd) bool {
	return HasLabelsOf(claim, etcd) || claim.Labels[firstNameLabel] == firstNameValue && claim.Labels[firstInstanceLabel] == etcd.Name
}

// hasGroup is true for every version of the API of Etcds.
func hasGroup(apiVersion string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")

	return group == druidv1alpha1.SchemeGroupVersion.Group
}
