// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// keptEntries is the number of entries that etcd keeps in its raft log for members that are behind. A member that is further behind may need a
// raft snapshot.
const keptEntries = 5000

// BlockedSnapshot is a raft snapshot that the leader may have to send, and cannot send.
type BlockedSnapshot struct {
	// Member needs the snapshot, and Leader cannot send it.
	Member, Leader etcdcluster.Member
}

// String returns the blocked snapshot as a clause for messages.
func (b BlockedSnapshot) String() string {
	return fmt.Sprintf("leader %s has no peer TLS and cannot send a raft snapshot to %s, which needs one if it was away for more than %d writes", b.Leader.Name, b.Member.Name, keptEntries)
}

// FindBlockedSnapshot returns the first member that has not become healthy, and may wait for a raft snapshot, while peer TLS is enabled or disabled.
// A member dials the leader for the stream of entries, but the leader dials the member for a snapshot. Without peer certificates it cannot
// dial an https URL. Nil: there is none.
func FindBlockedSnapshot(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) *BlockedSnapshot {
	members := etcdcluster.MembersOf(etcd, o, etcdcluster.RenderedReplicas(o))
	var leader *etcdcluster.Member
	for i := range members {
		if endpoint := members[i].Endpoint; endpoint != nil && endpoint.IsLeader() && members[i].IsHealthy() {
			leader = &members[i]
		}
	}
	if leader == nil || leader.Pod == nil || leader.Pod.PeerTLS {
		return nil
	}
	for _, member := range members {
		if mayNeedSnapshot(member, *leader.Endpoint, now) {
			return &BlockedSnapshot{Member: member, Leader: *leader}
		}
	}

	return nil
}

// mayNeedSnapshot is true for a member with peer certificates whose etcd has run for a while without becoming healthy. A member that is blocked
// does not respond, because etcd serves no client requests before it has caught up.
func mayNeedSnapshot(m etcdcluster.Member, leader etcdcluster.EndpointStatus, now time.Time) bool {
	switch pod := m.Pod; {
	case pod == nil || pod.Deleting || !pod.PeerTLS || !pod.IsRunning() || pod.IsNodeUnreachable():
		return false
	case m.IsHealthy() || now.Sub(pod.CreationTime) < etcdcluster.MemberStartTimeout:
		return false
	default:
		isClose := m.Endpoint != nil && m.Endpoint.Reachable && m.Endpoint.RaftAppliedIndex+keptEntries >= leader.RaftIndex

		return !isClose
	}
}
