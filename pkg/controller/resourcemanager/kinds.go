// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package resourcemanager

import (
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// renderedObjects are the kinds that the operator renders, each with an object for the options of the caches.
var renderedObjects = map[schema.GroupKind]client.Object{
	{Kind: "ConfigMap"}:                                      &corev1.ConfigMap{},
	{Kind: "Service"}:                                        &corev1.Service{},
	{Kind: "ServiceAccount"}:                                 &corev1.ServiceAccount{},
	{Group: appsv1.GroupName, Kind: "StatefulSet"}:           &appsv1.StatefulSet{},
	{Group: networkingv1.GroupName, Kind: "NetworkPolicy"}:   &networkingv1.NetworkPolicy{},
	{Group: policyv1.GroupName, Kind: "PodDisruptionBudget"}: &policyv1.PodDisruptionBudget{},
	{Group: rbacv1.GroupName, Kind: "Role"}:                  &rbacv1.Role{},
	{Group: rbacv1.GroupName, Kind: "RoleBinding"}:           &rbacv1.RoleBinding{},
}

func isRendered(kind schema.GroupKind) bool {
	_, is := renderedObjects[kind]

	return is
}

// renderedKinds is a RESTMapper that has only the kinds that the operator renders, and ManagedResources. Gardener's controllers
// watch no other kind then.
type renderedKinds struct {
	meta.RESTMapper
}

// RESTMapping implements meta.RESTMapper.
func (m renderedKinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if !isRendered(kind) && kind != resourcesv1alpha1.Kind("ManagedResource") {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}

	return m.RESTMapper.RESTMapping(kind, versions...)
}

// RESTMappings implements meta.RESTMapper.
func (m renderedKinds) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	mapping, err := m.RESTMapping(kind, versions...)
	if err != nil {
		return nil, err
	}

	return []*meta.RESTMapping{mapping}, nil
}
