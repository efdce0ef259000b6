// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import "k8s.io/apimachinery/pkg/types"

// StoreMove is how far a cluster has come on its way to another store. Most of the time there is none, and nothing is to be done.
type StoreMove struct {
	// Place is the store that is to be used, in words for people.
	Place string
	// Over is true when no member writes to any other store any more.
	Over bool

	owner types.UID
	o     Observation
}

// LeaseAct is what has to be done to a Lease of snapshots.
type LeaseAct string

// The acts.
const (
	// LeaseKept leaves it as it is: it tells of the store that is used, or of one that is used still, or is not ours.
	LeaseKept LeaseAct = ""
	// LeaseNamed notes on a Lease of before of which store it tells.
	LeaseNamed LeaseAct = "Named"
	// LeaseForgotten makes it anew: what it tells of lies in a store that nobody uses any more.
	LeaseForgotten LeaseAct = "Forgotten"
)

// StoreMoveTo says how a move stands of the Etcd with this UID to the store at place, where this is the rendering with it.
func StoreMoveTo(place string, owner types.UID, rendered Rendering, o Observation) StoreMove {
	return StoreMove{
		Place: place, Over: o.AllUseStoreOf(o.StatefulSet) && o.StatefulSet.Rendering.Checksum == rendered.Checksum, owner: owner, o: o,
	}
}

// ActOn says what has to be done to a Lease of snapshots. The one of deltas has to come last: when it tells of the new store, all
// is done.
func (m StoreMove) ActOn(lease Lease) LeaseAct {
	switch {
	case !lease.Exists || lease.OwnerUID != m.owner:
		return LeaseKept
	case lease.Store == "":
		return LeaseNamed
	case lease.Store != m.Place && m.Over:
		return LeaseForgotten
	default:
		return LeaseKept
	}
}

// WantsSnapshot is true until the move is over and all Leases tell of the new store: a full snapshot is to be taken there.
func (m StoreMove) WantsSnapshot() bool {
	before := m.o.DeltaSnapshotLease.Store

	return m.Over && before != "" && before != m.Place
}
