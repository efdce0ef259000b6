// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// FullSnapshotRequestedAt is the creation time of the newest EtcdOpsTask that takes a full snapshot of the Etcd. Zero: there is none.
func FullSnapshotRequestedAt(etcd *druidv1alpha1.Etcd, tasks []druidv1alpha1.EtcdOpsTask) time.Time {
	var newest time.Time
	for i := range tasks {
		task := &tasks[i]
		if ptr.Deref(task.Spec.EtcdName, "") == etcd.Name && helper.TaskKind(task) == druidv1alpha1.RunTaskFullSnapshot && task.CreationTimestamp.After(newest) {
			newest = task.CreationTimestamp.Time
		}
	}

	return newest
}

// WantsSnapshotForLease is true if the Lease of full snapshots of the Etcd with this UID was recreated while the members were running:
// it is empty, and younger than a member's pod that uses the store. The sidecar writes the Lease only when it takes a full snapshot,
// which may be a day later. It is false once a full snapshot is requested.
func (o Observation) WantsSnapshotForLease(owner types.UID) bool {
	lease := o.FullSnapshotLease
	if !lease.Exists || lease.OwnerUID != owner || lease.Holder != "" || !lease.RenewTime.IsZero() || !o.AllUseStoreOf(o.StatefulSet) {
		return false
	}
	if !o.FullSnapshotRequested.Before(lease.CreationTime) {
		return false
	}
	for _, pod := range o.Pods {
		if pod.Ready && pod.CreationTime.Before(lease.CreationTime) {
			return true
		}
	}

	return false
}
