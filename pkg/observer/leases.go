// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// readLeases reads the leases of members and snapshots.
func (r *reader) readLeases(ctx context.Context) {
	list := &coordinationv1.LeaseList{}
	if err := r.Reader.List(ctx, list, r.shared()...); err != nil {
		r.failed(etcdcluster.SectionLeases, err)

		return
	}
	for i := range list.Items {
		lease := etcdcluster.LeaseFor(&list.Items[i])
		switch {
		case lease.Name == helper.FullSnapshotLeaseName(r.etcd):
			r.observation.FullSnapshotLease = lease
		case lease.Name == helper.DeltaSnapshotLeaseName(r.etcd):
			r.observation.DeltaSnapshotLease = lease
		case list.Items[i].Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameMemberLease:
			r.observation.MemberLeases = append(r.observation.MemberLeases, lease)
		}
	}
	slices.SortFunc(r.observation.MemberLeases, func(a, b etcdcluster.Lease) int { return cmp.Compare(a.Name, b.Name) })
}
