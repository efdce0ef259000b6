// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// watchedForDeletion are the kinds, beside the StatefulSet, that an Etcd is missing when somebody deletes one.
// gardener-resource-manager does not watch what it applied, and would put it back up to an hour later.
var watchedForDeletion = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// repairDrift asks for the ManagedResource to be applied again where something that was applied is gone or was scaled
// by somebody else. It returns whether it did, and then what is waited for.
func (r *Reconciler) repairDrift(ctx context.Context, p *pass, mr *resourcesv1alpha1.ManagedResource, rendered rendering) (bool, error) {
	drift, err := r.driftOf(ctx, p, rendered)
	if err != nil || drift == "" {
		return false, failed(druidv1alpha1.ErrorCodeObserve, err)
	}
	r.event(p.etcd, corev1.EventTypeNormal, "RepairingDrift", "Asking for ManagedResource %s to be applied again: %s", mr.Name, drift)
	if err := r.requestApply(ctx, mr); err != nil {
		return false, failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
	}
	return true, waitFor("Waiting for ManagedResource %s to be applied again: %s", mr.Name, drift)
}

// driftOf says what differs from what was applied; empty if nothing does.
func (r *Reconciler) driftOf(ctx context.Context, p *pass, rendered rendering) (string, error) {
	if live, want := p.observation.StatefulSet.SpecReplicas, ptr.Deref(rendered.statefulSet.Spec.Replicas, 1); live != want {
		return fmt.Sprintf("StatefulSet %s has %d replicas instead of %d", rendered.statefulSet.Name, live, want), nil
	}
	for _, obj := range rendered.objects {
		kind, err := apiutil.GVKForObject(obj, r.Client.Scheme())
		if err != nil {
			return "", err
		}
		if kind.Kind == "StatefulSet" {
			continue // observed already
		}
		live := metadataOf(kind)
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(obj), live); apierrors.IsNotFound(err) {
			return fmt.Sprintf("%s %s is gone", kind.Kind, obj.GetName()), nil
		} else if err != nil {
			return "", err
		}
	}
	return "", nil
}
