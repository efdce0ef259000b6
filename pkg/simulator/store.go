// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// sidecarStartDuration is how long a sidecar needs until it renews the Lease of its member.
const sidecarStartDuration = 15 * time.Second

// Store is the backup store.
type Store struct {
	// Down is true while the store is unreachable: no snapshots are taken, and a single member with data does not start.
	Down bool
	// Emptied is true if all snapshots were deleted. The Leases do not record this.
	Emptied bool
	// Keys is the number of keys in the cluster, and StoredKeys the number of keys in its snapshots.
	Keys, StoredKeys int
}

// endSnapshotCall ends the call to the sidecar that takes a full snapshot.
func (c *Cluster) endSnapshotCall() bool {
	calls := &c.Objects.SnapshotAttempts
	if !calls.Running {
		return false
	}
	switch {
	case c.Leader == 0:
		*calls = calls.Ended(nil, errors.New("no member leads"), c.now)
	case c.Store.Down:
		*calls = calls.Ended(nil, errors.New("the store does not answer"), c.now)
	default:
		startedAt := c.now
		c.Advance(c.SnapshotDuration)
		*calls = calls.Ended(&state.VerifiedSnapshot{Name: "Full-00000000-00000042", Revision: 42, At: startedAt}, nil, c.now)
	}

	return true
}

// RenewLeases lets the sidecars renew the Leases of their members and of the snapshots.
func (c *Cluster) RenewLeases() {
	for ordinal := range maxMembers {
		member, pod := c.RunningMember(ordinal), c.Objects.PodFor(ordinal)
		if member == nil || c.Leader == 0 || !c.Process(pod.UID).HasRegistered || c.now.Sub(pod.CreationTime) < sidecarStartDuration {
			continue
		}
		lease := c.memberLease(helper.MemberName(c.Etcd, ordinal))
		lease.Holder, lease.RenewTime, lease.TLSEnabled = fmt.Sprintf("%x:%x:Member", member.ID, c.clusterID), c.now, new(pod.PeerTLS)
	}
	if helper.IsStoreConfigured(c.Etcd) && !c.Store.Down && !c.Store.Emptied && c.Leader != 0 {
		c.Store.StoredKeys = c.Store.Keys
		renew(&c.Objects.FullSnapshotLease, helper.FullSnapshotLeaseName(c.Etcd), c.now)
		renew(&c.Objects.DeltaSnapshotLease, helper.DeltaSnapshotLeaseName(c.Etcd), c.now)
	}
}

func renew(lease *etcdcluster.Lease, name string, now time.Time) {
	lease.Exists, lease.Name, lease.RenewTime = true, name, now
}

// memberLease returns the Lease with the name, which it creates if it does not exist.
func (c *Cluster) memberLease(name string) *etcdcluster.Lease {
	leases := &c.Objects.MemberLeases
	index := slices.IndexFunc(*leases, func(lease etcdcluster.Lease) bool { return lease.Name == name })
	if index < 0 {
		index = len(*leases)
		*leases = append(*leases, etcdcluster.Lease{Exists: true, Name: name, UID: types.UID("lease-" + name)})
	}

	return &(*leases)[index]
}

// CreateMemberLeases creates the Leases of the members that the spec requests, as the operator does.
func (c *Cluster) CreateMemberLeases() {
	for _, name := range helper.MemberLeaseNames(c.Etcd, c.Etcd.Spec.Replicas) {
		c.memberLease(name)
	}
}

// SetLeaseHolder writes the ID of a voting member into its Lease, as the operator does before a sidecar has renewed it.
func (c *Cluster) SetLeaseHolder(name string, id uint64) {
	c.memberLease(name).Holder = fmt.Sprintf("%x:Member", id)
}

// restoreJob ends the Job that verifies a restore.
func (c *Cluster) restoreJob() bool {
	job := &c.Objects.RestoreVerification
	if !job.Exists || job.Failed || job.Succeeded {
		return false
	}
	job.Succeeded = !c.Store.Down && !c.Store.Emptied
	if job.Failed = !job.Succeeded; job.Failed {
		job.Message = "nothing was restored"
	}

	return true
}
