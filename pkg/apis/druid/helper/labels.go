// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// DefaultLabels are the labels of all objects of the Etcd. The caller may change the map.
func DefaultLabels(etcd *druidv1alpha1.Etcd) map[string]string {
	return map[string]string{
		druidv1alpha1.LabelManagedByKey: druidv1alpha1.LabelManagedByValue,
		druidv1alpha1.LabelPartOfKey:    etcd.Name,
	}
}

// LabelValue returns the name of an object as value of a label. A colon, which labels may not have, becomes a dash. A name with more than 63
// characters is truncated, and ends with its hash.
func LabelValue(name string) string {
	value := strings.ReplaceAll(name, ":", "-")
	if len(value) <= validation.LabelValueMaxLength {
		return value
	}
	hash := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(hash[:4])

	return value[:validation.LabelValueMaxLength-len(suffix)] + suffix
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
