// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// MemberLeases returns one Lease per member, by ordinal, with an empty spec. The sidecar of the member writes the spec, but
// cannot create the Lease. Empty if runtime components are disabled.
func MemberLeases(v Values) []*coordinationv1.Lease {
	if !v.Components.Identity {
		return nil
	}

	leases := make([]*coordinationv1.Lease, 0, len(v.MemberLeaseNames))
	for _, name := range v.MemberLeaseNames {
		leases = append(leases, lease(v, name, druidv1alpha1.ComponentNameMemberLease))
	}

	return leases
}

// SnapshotLeases returns the Leases of full and of delta snapshots, with the store that they describe. Their specs are empty,
// because the leading sidecar writes them. Empty without a store, or if runtime components are disabled.
func SnapshotLeases(v Values) []*coordinationv1.Lease {
	if v.Store == nil || !v.Components.Identity {
		return nil
	}

	leases := []*coordinationv1.Lease{
		lease(v, v.Names.FullSnapshotLease, druidv1alpha1.ComponentNameSnapshotLease),
		lease(v, v.Names.DeltaSnapshotLease, druidv1alpha1.ComponentNameSnapshotLease),
	}
	for _, lease := range leases {
		lease.Annotations = map[string]string{druidv1alpha1.LeaseAnnotationStore: backupstore.RecordFor(*v.Store).String()}
	}

	return leases
}

// NewSnapshotLease returns one of the Leases of SnapshotLeases by its name, without the store.
func NewSnapshotLease(etcd *druidv1alpha1.Etcd, name string) *coordinationv1.Lease {
	v := Values{Namespace: etcd.Namespace, Labels: helper.DefaultLabels(etcd), Owner: helper.OwnerReference(etcd)}

	return lease(v, name, druidv1alpha1.ComponentNameSnapshotLease)
}

func lease(v Values, name, component string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: v.objectMeta(name, component),
	}
}
