// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// tryRendering asks the API server whether it would create what was rendered, without creating it. What it refuses is
// the author's mistake and never reaches the ManagedResource, where it would keep every other object from being
// applied. The API server validates an object before it reports that one of its name exists. Such an object belongs to the Etcd, which
// checkOwnership makes sure of.
func (r *Reconciler) tryRendering(ctx context.Context, objects []client.Object) error {
	for _, obj := range objects {
		kind, code, tried := dryRunFor(obj)
		if !tried {
			continue
		}
		err := r.Client.Create(ctx, obj.DeepCopyObject().(client.Object), client.DryRunAll)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, fmt.Errorf("the API server refuses the %s that the spec leads to: %w", kind, err))
		default:
			return plan.Failed(code, fmt.Errorf("trying %s %s: %w", kind, obj.GetName(), err))
		}
	}
	return nil
}

// dryRunFor names the kind of an object that is tried and the code of a failure to do so. RBAC is never tried: the API
// server would require that the operator has every permission in them.
func dryRunFor(obj client.Object) (string, druidv1alpha1.ErrorCode, bool) {
	switch o := obj.(type) {
	case *appsv1.StatefulSet:
		return "StatefulSet", druidv1alpha1.ErrorCodeSyncStatefulSet, true
	case *corev1.Service:
		if o.Spec.ClusterIP == corev1.ClusterIPNone {
			return "Service", druidv1alpha1.ErrorCodeSyncPeerService, true
		}
		return "Service", druidv1alpha1.ErrorCodeSyncClientService, true
	case *policyv1.PodDisruptionBudget:
		return "PodDisruptionBudget", druidv1alpha1.ErrorCodeSyncPodDisruptionBudget, true
	case *networkingv1.NetworkPolicy:
		return "NetworkPolicy", druidv1alpha1.ErrorCodeSyncNetworkPolicy, true
	case *corev1.ConfigMap:
		return "ConfigMap", druidv1alpha1.ErrorCodeSyncConfigMap, true
	}
	return "", "", false
}
