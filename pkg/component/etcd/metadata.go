// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// objectMeta is the metadata of an object of the component.
func (v Values) objectMeta(name, component string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            name,
		Namespace:       v.Namespace,
		Labels:          v.objectLabels(name, component),
		OwnerReferences: []metav1.OwnerReference{v.Owner},
	}
}

// objectLabels are the labels of an object of the component.
func (v Values) objectLabels(name, component string) map[string]string {
	return merge(v.Labels, map[string]string{
		druidv1alpha1.LabelAppNameKey:   helper.LabelValue(name),
		druidv1alpha1.LabelComponentKey: component,
	})
}

// podSelector selects the etcd pods of the Etcd, and no pod of a Job.
func (v Values) podSelector() map[string]string {
	return merge(v.Labels, map[string]string{
		druidv1alpha1.LabelComponentKey: druidv1alpha1.ComponentNameStatefulSet,
	})
}

// merge returns a new map, in which later maps override earlier ones. Nil if it is empty.
func merge(all ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, one := range all {
		maps.Copy(merged, one)
	}
	if len(merged) == 0 {
		return nil
	}

	return merged
}
