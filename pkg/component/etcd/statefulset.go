// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// statefulSet runs the members. Pods start in parallel, since etcd forms a cluster only with a quorum. The operator replaces
// them, since it knows the leader and the state of each member. The selector is immutable, and older than the component label:
// it contains only the default labels.
func statefulSet(v Values, configChecksum string) *appsv1.StatefulSet {
	statefulSet := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet"},
		ObjectMeta: v.objectMeta(v.Name, druidv1alpha1.ComponentNameStatefulSet),
		Spec: appsv1.StatefulSetSpec{
			Replicas:             new(v.Replicas),
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Selector:             &metav1.LabelSelector{MatchLabels: v.Labels},
			Template:             podTemplate(v, configChecksum),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{volumeClaimTemplate(v)},
		},
	}
	if v.Components.Network {
		statefulSet.Spec.ServiceName = v.Names.PeerService
	}

	return statefulSet
}

func volumeClaimTemplate(v Values) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: v.Claim.Name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: v.Claim.StorageClassName,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: v.Claim.Capacity}},
		},
	}
}
