// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// StoreMove is the progress of a cluster to another backup store. In a cluster whose store does not change it requires nothing.
type StoreMove struct {
	// Location is the store to be used, as text for users.
	Location string
	// Completed is true if no member writes to another store any more.
	Completed bool

	owner types.UID
	o     etcdcluster.Observation
}

// LeaseAct is the action on a Lease of snapshots.
type LeaseAct string

// The acts.
const (
	// LeaseUnchanged leaves the Lease as it is. The Lease records the store that is used, or one that members still write to, or it
	// does not belong to the Etcd.
	LeaseUnchanged LeaseAct = ""
	// LeaseStoreRecorded records in a Lease without a store which store its snapshots are in.
	LeaseStoreRecorded LeaseAct = "StoreRecorded"
	// LeaseReset recreates the Lease: its snapshots are in a store that no member uses any more.
	LeaseReset LeaseAct = "Reset"
)

// StoreMoveTo returns the progress of the Etcd with this UID to the store at a location. rendered is the rendering with that store.
func StoreMoveTo(location string, owner types.UID, rendered etcdcluster.Rendering, o etcdcluster.Observation) StoreMove {
	return StoreMove{
		Location: location, Completed: o.AllUseStoreOf(o.StatefulSet) && o.StatefulSet.Rendering.Checksum == rendered.Checksum, owner: owner, o: o,
	}
}

// ActOn returns the action on a Lease of snapshots. The Lease of delta snapshots must come last: when it records the new store, the move is
// completed.
func (m StoreMove) ActOn(lease etcdcluster.Lease) LeaseAct {
	switch {
	case !lease.Exists || lease.OwnerUID != m.owner:
		return LeaseUnchanged
	case lease.Store == "":
		return LeaseStoreRecorded
	case lease.Store != m.Location && m.Completed:
		return LeaseReset
	default:
		return LeaseUnchanged
	}
}

// WantsSnapshot is true after the members use the new store, until all Leases record it. Then a full snapshot must be taken there.
func (m StoreMove) WantsSnapshot() bool {
	before := m.o.DeltaSnapshotLease.Store

	return m.Completed && before != "" && before != m.Location
}

// VotersWithoutLeaseHolder returns the members of a canonical Etcd that are voting members in the member list, and whose Leases have no
// holder yet. All of them are listed.
func VotersWithoutLeaseHolder(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) []etcdcluster.Member {
	var voters []etcdcluster.Member
	for _, member := range etcdcluster.MembersOf(etcd, o, etcdcluster.RenderedReplicas(o)) {
		if member.Pod != nil && member.Lease != nil && member.Lease.Holder == "" && member.Listed != nil && !member.Listed.Learner {
			voters = append(voters, member)
		}
	}

	return voters
}

// WantsSnapshotForLease is true if the Lease of full snapshots of the Etcd with this UID was recreated while the members were running.
// Such a Lease is empty, and younger than a member's pod that uses the store. The sidecar writes the Lease only when it takes a full
// snapshot, which may be a day later. It is false once a full snapshot is requested.
func WantsSnapshotForLease(o etcdcluster.Observation, owner types.UID) bool {
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
