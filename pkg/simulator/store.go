// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// sidecarStartDuration is how long a sidecar needs until it renews the Lease of its member.
const sidecarStartDuration = 15 * time.Second

// Write writes keys, as clients do. Each write is acknowledged: the leader and the members that are connected to it have it. False: no leader is
// connected to a quorum, or a database is full: nothing is written.
func (c *Cluster) Write(count int) bool {
	if !slices.ContainsFunc(c.Members, func(m *Member) bool { return m.ID == c.Leader && c.mayLead(m) }) || !c.hasSpace() {
		return false
	}
	c.Data = c.Data.At(c.Data.Revision + int64(count))
	c.Acknowledged.Acknowledge(c.Data)
	c.replicate()

	return true
}

// replicate gives the newest data to the voting members that are connected to the leader.
func (c *Cluster) replicate() {
	for _, member := range c.Members {
		if c.Leader != 0 && !member.Learner && c.RunningMember(member.Ordinal) != nil && c.IsConnected(member) {
			c.volume(member.Ordinal).Data = c.Data
		}
	}
}

// IsRecoverable is true for a write that IsKept or that a retained volume contains.
func (c *Cluster) IsRecoverable(write history.Position) bool {
	return c.IsKept(write) || slices.ContainsFunc(c.Released, func(volume *Volume) bool { return volume.Data.Contains(write) })
}

// IsKept is true if the voting members or the store keep a write. Members keep it if no leader can be elected without it.
func (c *Cluster) IsKept(write history.Position) bool {
	var voters []history.Voter
	for _, member := range c.Members {
		if member.Learner {
			continue
		}
		voter := history.Voter{}
		if volume := c.volume(member.Ordinal); volume != nil && !volume.Lost && volume.Member == member.ID {
			node := c.Node(volume.Node)
			voter.Position, voter.Intact = volume.Data, c.NetworkVolumes || node == nil || !node.Gone && !node.OutOfService
		}
		voters = append(voters, voter)
	}

	return history.IsCommitted(write, voters) || helper.IsStoreConfigured(c.Etcd) && c.Store.Contains(write)
}

// keysIn returns the number of keys in a database. No key is written twice.
func keysIn(data history.Position) int64 { return max(data.Revision-1, 0) }

// endCalls ends the calls of the operator that take long.
func (c *Cluster) endCalls() bool {
	isTaken := c.endSnapshotCall()

	return c.endSpaceCall() || isTaken
}

// isLeaderSidecarBroken is true if the sidecar of the leader does not start.
func (c *Cluster) isLeaderSidecarBroken() bool {
	pod := c.Objects.Leader()

	return pod != nil && c.Process(pod.UID).SidecarBroken
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
		*calls = calls.Ended(nil, history.ErrUnreachable, c.now)
	case c.isLeaderSidecarBroken():
		*calls = calls.Ended(nil, errors.New("the sidecar of the leader does not respond"), c.now)
	default:
		startedAt := c.now
		c.Advance(c.SnapshotDuration)
		_, _ = c.Store.Add(c.Data, startedAt, false) // the store is reachable
		verified := &state.VerifiedSnapshot{Name: "Full-00000000-00000042", Revision: 42, At: startedAt, Store: c.Objects.LeaderStoreLocation()}
		if leader := c.Objects.Leader(); leader != nil {
			verified.PodCreationTime = leader.CreationTime
		}
		*calls = calls.Ended(verified, nil, c.now)
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
	c.replicate()
	if helper.IsStoreConfigured(c.Etcd) && c.Leader != 0 {
		c.snapshot()
	}
}

// snapshot lets the sidecar of the leader take the first full snapshot, and delta snapshots of new writes. It takes no other full snapshot by
// itself: the Leases are renewed although delta snapshots alone, in an emptied store, cannot be restored.
func (c *Cluster) snapshot() {
	isFirst := c.Store.IsEmpty() && c.Objects.FullSnapshotLease.Holder == ""
	if newest := c.Store.Last(); isFirst || newest.Position != c.Data {
		if _, err := c.Store.Add(c.Data, c.now, !isFirst); err != nil {
			return
		}
	}
	if c.Store.Down {
		return
	}
	c.renew(&c.Objects.FullSnapshotLease, helper.FullSnapshotLeaseName(c.Etcd))
	c.renew(&c.Objects.DeltaSnapshotLease, helper.DeltaSnapshotLeaseName(c.Etcd))
}

// renew records the snapshots in a Lease. The sidecar leaves a Lease unchanged that has a higher revision than its snapshots.
func (c *Cluster) renew(lease *etcdcluster.Lease, name string) {
	if before, err := strconv.ParseInt(lease.Holder, 10, 64); err == nil && before > c.Data.Revision {
		return
	}
	lease.Exists, lease.Name, lease.UID, lease.RenewTime, lease.Holder = true, name, types.UID("lease-"+name), c.now, strconv.FormatInt(c.Data.Revision, 10)
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
	size := c.Etcd.Spec.Replicas
	if written := c.written; written != nil && written.Remaining > 0 && written.Replicas <= written.Remaining {
		size = written.Remaining // the Leases of removed members are deleted
	}
	if written := c.written; written != nil && written.Withdrawn > 0 && written.Replicas < written.Withdrawn {
		size = written.Replicas
	}
	for _, name := range helper.MemberLeaseNames(c.Etcd, size) {
		c.memberLease(name)
	}
}

// SetLeaseHolder writes the ID of a voting member into its Lease, as the operator does before a sidecar has renewed it.
func (c *Cluster) SetLeaseHolder(name string, id uint64) {
	c.memberLease(name).Holder = fmt.Sprintf("%x:Member", id)
}

// jobs ends the Jobs that verify a restore and that inspect volumes.
func (c *Cluster) jobs() bool {
	changed := c.endRecoveryJob() || c.restoreJob()
	for i := range c.Objects.Inspections {
		job := &c.Objects.Inspections[i]
		if job.Failed || job.Result != nil {
			continue
		}
		changed = true
		switch volume := c.Volumes[job.Claim]; {
		case volume == nil || volume.Lost || volume.Member == 0 && volume.Data != history.Position{}:
			job.Failed, job.Corrupt, job.Message = true, true, "the database is corrupt"
		case volume.Member == 0 && volume.Data == history.Position{}:
			job.Failed, job.Empty, job.Message = true, true, "no files"
		default:
			job.Result = &etcdcluster.Inspection{Revision: volume.Data.Revision, Keys: keysIn(volume.Data), Log: c.logOf(volume)}
		}
	}

	return changed
}

// restoreJob ends the Job that verifies a restore.
func (c *Cluster) restoreJob() bool {
	job := &c.Objects.RestoreVerification
	if !job.Exists || job.Failed || job.Succeeded {
		return false
	}
	restored, err := c.Store.Newest()
	job.Succeeded, job.Failed = err == nil, err != nil
	if err != nil {
		job.Message = "nothing was restored"
	} else {
		job.Result = &etcdcluster.Inspection{Revision: restored.Position.Revision, Keys: keysIn(restored.Position)}
	}

	return true
}
