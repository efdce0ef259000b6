// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// role allows the sidecar to patch the leases of this Etcd, and to read its StatefulSet, from which it detects a scale-up.
func role(v Values) *rbacv1.Role {
	rules := []rbacv1.PolicyRule{{
		APIGroups:     []string{"apps"},
		Resources:     []string{"statefulsets"},
		ResourceNames: []string{v.Name},
		Verbs:         []string{"get"},
	}}
	// A rule without names would apply to all leases of the namespace.
	if leases := leaseNames(v); len(leases) > 0 {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups:     []string{"coordination.k8s.io"},
			Resources:     []string{"leases"},
			ResourceNames: leases,
			Verbs:         []string{"get", "patch"},
		})
	}

	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: v.objectMeta(v.Names.Role, druidv1alpha1.ComponentNameRole),
		Rules:      rules,
	}
}

func leaseNames(v Values) []string {
	names := slices.Clone(v.MemberLeaseNames)
	if v.Store != nil {
		names = append(names, v.Names.FullSnapshotLease, v.Names.DeltaSnapshotLease)
	}

	return names
}
