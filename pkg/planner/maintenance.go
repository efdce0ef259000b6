// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// StoreMove is the progress of a cluster to another backup store. In a cluster whose store does not change it requires nothing.
type StoreMove struct {
	// Location is the store to be used, as text for users.
	Location string
	// Completed is true if no member writes to another store any more.
	Completed bool

	store state.Store
	use   etcdcluster.StoreUse
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
	// LeaseStoreRecorded records in a Lease which store its snapshots are in. The Lease has no store, or its text lacks the endpoint or the
	// account. Or the sidecar has renewed the Lease since it uses the store.
	LeaseStoreRecorded LeaseAct = "StoreRecorded"
	// LeaseReset recreates the Lease: its snapshots are in a store that no member uses any more.
	LeaseReset LeaseAct = "Reset"
)

// StoreMoveTo returns the progress of the Etcd with this UID to a store. rendered is the rendering with that store.
func StoreMoveTo(store state.Store, owner types.UID, rendered etcdcluster.Rendering, o etcdcluster.Observation, now time.Time) StoreMove {
	use := etcdcluster.StoreUseOf(&store, o.Pods)
	isUsed := o.AllUseStoreOf(o.StatefulSet) && o.StatefulSet.Rendering.Checksum == rendered.Checksum && use.IsKnown && !now.Before(use.Since)

	return StoreMove{Location: store.String(), Completed: isUsed, store: store, use: use, owner: owner, o: o}
}

// awaitsSnapshot is true for a store whose endpoint or account has changed back to those that the Leases record. Delta snapshots may be in the
// other store, so that the next ones continue a chain with a gap. A full snapshot since then ends that.
func (m StoreMove) awaitsSnapshot() bool {
	full := m.o.FullSnapshotLease
	if !m.store.AwaitsSnapshot() || !full.Exists || full.OwnerUID != m.owner || full.RenewTime.After(m.use.Since) {
		return false
	}

	return full.Store != "" && state.IsSameStore(full.Store, m.Location)
}

// IsPending is true while a Lease of the Etcd records another store, or no full snapshot since the endpoint or the account changed.
func (m StoreMove) IsPending() bool { return m.awaitsSnapshot() || m.IsElsewhere() }

// IsElsewhere is true while a Lease of the Etcd records another store.
func (m StoreMove) IsElsewhere() bool {
	return etcdcluster.IsInOtherStore(m.o.FullSnapshotLease, m.Location) || etcdcluster.IsInOtherStore(m.o.DeltaSnapshotLease, m.Location)
}

// ActOn returns the action on a Lease of snapshots. The Lease of delta snapshots must come last: when it records the new store, the move is
// completed.
func (m StoreMove) ActOn(lease etcdcluster.Lease) LeaseAct {
	switch {
	case !lease.Exists || lease.OwnerUID != m.owner:
		return LeaseUnchanged
	case lease.Store == "":
		return LeaseStoreRecorded
	case state.IsSameStore(lease.Store, m.Location):
		if len(lease.Store) < len(m.Location) { // endpoint or account are known now
			return LeaseStoreRecorded
		}

		return LeaseUnchanged
	case !m.Completed:
		return LeaseUnchanged
	case m.use.Restarted || !state.IsSameContainer(lease.Store, m.Location):
		return LeaseReset
	default:
		return m.actOnRenewed(lease)
	}
}

// actOnRenewed returns the action on a Lease while pods run that are older than the change of the endpoint or the account. Their sidecars would
// write the snapshots of the other store into a new Lease. A Lease counts for this store when its snapshot is newer.
func (m StoreMove) actOnRenewed(lease etcdcluster.Lease) LeaseAct {
	full := m.o.FullSnapshotLease
	isBase := lease.Name == full.Name || !etcdcluster.IsInOtherStore(full, m.Location)
	if isBase && (lease.RenewTime.After(m.use.Since) || lease.RenewTime.IsZero()) {
		return LeaseStoreRecorded
	}

	return LeaseUnchanged
}

// TextFor returns what LeaseStoreRecorded records in a Lease.
func (m StoreMove) TextFor(lease etcdcluster.Lease) string {
	if lease.Store == "" && !state.IsSameStore(m.o.StoreLocation, m.Location) {
		return cmp.Or(m.o.StoreLocation, m.Location)
	}

	return m.Location
}

// WantsSnapshot is true after the members use the new store, until all Leases record it. Then a full snapshot must be taken there.
func (m StoreMove) WantsSnapshot() bool {
	if m.awaitsSnapshot() {
		return m.Completed
	}
	if !m.use.Restarted && state.IsSameContainer(m.o.FullSnapshotLease.Store, m.Location) {
		return m.Completed && etcdcluster.IsInOtherStore(m.o.FullSnapshotLease, m.Location)
	}

	return m.Completed && etcdcluster.IsInOtherStore(m.o.DeltaSnapshotLease, m.Location)
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
// Such a Lease is younger than a member's pod that uses the store. It is empty, or records a snapshot from before. The sidecar takes
// the next full snapshot as scheduled, which may be a day later. It is false once a full snapshot is requested.
func WantsSnapshotForLease(o etcdcluster.Observation, owner types.UID) bool {
	lease := o.FullSnapshotLease
	isEmpty := lease.Holder == "" && lease.RenewTime.IsZero() || o.RecordsEarlierSnapshot(lease)
	if !lease.Exists || lease.OwnerUID != owner || !isEmpty || !o.AllUseStoreOf(o.StatefulSet) {
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
