// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// DefaultLabels are the labels of all objects of the Etcd. The caller may change the map.
func DefaultLabels(etcd *druidv1alpha1.Etcd) map[string]string {
	return map[string]string{
		druidv1alpha1.LabelManagedByKey: druidv1alpha1.LabelManagedByValue,
		druidv1alpha1.LabelPartOfKey:    etcd.Name,
	}
}

// Selector is the text form of the selector of the Etcd's pods, for status.selector.
func Selector(etcd *druidv1alpha1.Etcd) string {
	return labels.SelectorFromSet(DefaultLabels(etcd)).String()
}

// OwnerReference is the reference to the Etcd as controller of its objects.
func OwnerReference(etcd *druidv1alpha1.Etcd) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion:         druidv1alpha1.SchemeGroupVersion.String(),
		Kind:               "Etcd",
		Name:               etcd.Name,
		UID:                etcd.UID,
		Controller:         new(true),
		BlockOwnerDeletion: new(true),
	}
}
