// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// StoreMove is how far a cluster has come on its way to another store. Most of the time there is none, and nothing is to be done.
type StoreMove struct {
	// Location is the store that is to be used, in words for people.
	Location string
	// Completed is true when no member writes to any other store any more.
	Completed bool

	owner types.UID
	o     etcdcluster.Observation
}

// LeaseAct is what has to be done to a Lease of snapshots.
type LeaseAct string

// The acts.
const (
	// LeaseUnchanged leaves it as it is: it tells of the store that is used, or of one that is used still, or is not ours.
	LeaseUnchanged LeaseAct = ""
	// LeaseStoreRecorded notes on a Lease of before of which store it tells.
	LeaseStoreRecorded LeaseAct = "Named"
	// LeaseReset makes it anew: what it tells of lies in a store that nobody uses any more.
	LeaseReset LeaseAct = "Forgotten"
)

// StoreMoveTo says how a move stands of the Etcd with this UID to the store at place, where this is the rendering with it.
func StoreMoveTo(location string, owner types.UID, rendered etcdcluster.Rendering, o etcdcluster.Observation) StoreMove {
	return StoreMove{
		Location: location, Completed: o.AllUseStoreOf(o.StatefulSet) && o.StatefulSet.Rendering.Checksum == rendered.Checksum, owner: owner, o: o,
	}
}

// ActOn says what has to be done to a Lease of snapshots. The one of deltas has to come last: when it tells of the new store, all
// is done.
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

// WantsSnapshot is true until the move is over and all Leases tell of the new store: a full snapshot is to be taken there.
func (m StoreMove) WantsSnapshot() bool {
	before := m.o.DeltaSnapshotLease.Store

	return m.Completed && before != "" && before != m.Location
}

// VotersWithoutLeaseHolder are the members of a canonical Etcd that have a vote, as the cluster's own list says, while their leases tell of none yet.
// All of them are listed.
func VotersWithoutLeaseHolder(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) []etcdcluster.Member {
	var voters []etcdcluster.Member
	for _, member := range etcdcluster.MembersOf(etcd, o, etcdcluster.RenderedReplicas(o)) {
		if member.Pod != nil && member.Lease != nil && member.Lease.Holder == "" && member.Listed != nil && !member.Listed.Learner {
			voters = append(voters, member)
		}
	}

	return voters
}

// WantsSnapshotForLease is true if the Lease of full snapshots of the Etcd with this UID was recreated while the members were running:
// it is empty, and younger than a member's pod that uses the store. The sidecar writes the Lease only when it takes a full snapshot,
// which may be a day later. It is false once a full snapshot is requested.
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
