// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// admit rejects the expansion of a claim that exceeds a ResourceQuota for storage. Like the API server, it also does so in a dry run.
func (k *Cluster) admit(current, next client.Object) error {
	before, isClaim := current.(*corev1.PersistentVolumeClaim)
	if !isClaim {
		return nil
	}
	requested := next.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests.Storage().DeepCopy()
	requested.Sub(*before.Spec.Resources.Requests.Storage())
	used := resource.Quantity{}
	for _, claim := range listOf[*corev1.PersistentVolumeClaim](k) {
		used.Add(*claim.Spec.Resources.Requests.Storage())
	}
	total := used.DeepCopy()
	total.Add(requested)
	for _, quota := range listOf[*corev1.ResourceQuota](k) {
		limit, isLimited := quota.Spec.Hard[corev1.ResourceRequestsStorage]
		if isLimited && requested.Sign() > 0 && total.Cmp(limit) > 0 {
			return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), before.Name, fmt.Errorf(
				"exceeded quota: %s, requested: requests.storage=%s, used: requests.storage=%s, limited: requests.storage=%s", quota.Name, &requested, &used, &limit))
		}
	}
	return nil
}
