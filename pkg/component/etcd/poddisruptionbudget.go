// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// podDisruptionBudget protects a quorum of etcd pods from eviction. Its selector contains the component: the pod of a
// compaction Job has the default labels too, and would count as a healthy member. A single member has no quorum to protect,
// and would only block the drain of its node.
func podDisruptionBudget(v Values) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: v.objectMeta(v.Name, druidv1alpha1.ComponentNamePodDisruptionBudget),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(minAvailable(v.Replicas))),
			Selector:     &metav1.LabelSelector{MatchLabels: v.podSelector()},
		},
	}
	if v.Pod.AllowUnhealthyEviction {
		budget.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	}

	return budget
}

func minAvailable(replicas int32) int32 {
	if replicas <= 1 {
		return 0
	}

	return replicas/2 + 1
}
