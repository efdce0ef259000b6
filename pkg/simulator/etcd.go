// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Member returns the member with the ordinal, running or not. Nil: etcd does not list it.
func (c *Cluster) Member(ordinal int) *Member {
	for _, member := range c.Members {
		if member.Ordinal == ordinal {
			return member
		}
	}

	return nil
}

// RunningMember returns the member with the ordinal if it runs on its own data and its node is reachable. Nil: it does not.
func (c *Cluster) RunningMember(ordinal int) *Member {
	pod, member := c.Objects.PodFor(ordinal), c.Member(ordinal)
	if existing := c.existing[ordinal]; existing != nil && !existing.stopped {
		return member
	}
	if pod == nil || member == nil || !c.runsEtcd(pod) || c.brokenImages[etcdContainer(pod).Image] || c.volume(ordinal).Member != member.ID ||
		c.volume(ordinal).Separate {
		return nil
	}

	return member
}

// runsEtcd is true for a pod whose etcd container runs on a reachable node and on a volume of the cluster.
func (c *Cluster) runsEtcd(pod *etcdcluster.Pod) bool {
	if pod.Deleting || c.foreignData[pod.Ordinal] || c.isDefragmenting(pod) || etcdContainer(pod).State != etcdcluster.ContainerRunning || c.Process(pod.UID).WaitsForStore {
		return false
	}
	node, volume := c.Node(pod.Node), c.volume(pod.Ordinal)

	return node != nil && !node.Partitioned && !node.Gone && volume != nil && !volume.Lost
}

// Voters returns the number of voting members that are healthy, and of all voting members. Without a leader, all that run count as healthy.
func (c *Cluster) Voters() (healthy, all int) {
	for _, member := range c.Members {
		if member.Learner {
			continue
		}
		all++
		if c.RunningMember(member.Ordinal) != nil && (c.Leader == 0 || c.IsConnected(member)) {
			healthy++
		}
	}

	return healthy, all
}

// LoseLeader lets the members notice that their leader has stopped, or has no quorum. Otherwise, they respond as before until the next tick.
func (c *Cluster) LoseLeader() {
	if c.Leader != 0 {
		c.elect()
	}
}

// elect keeps the leader while it runs and is connected to a quorum. There is no leader for one tick before an election.
func (c *Cluster) elect() bool {
	before, isSent := c.Leader, c.sendSnapshots()
	if c.Leader != 0 {
		if !slices.ContainsFunc(c.Members, func(m *Member) bool { return m.ID == c.Leader && c.mayLead(m) }) {
			c.Leader = 0
		}

		return isSent || before != c.Leader
	}
	if next := c.nextLeader(); next != nil {
		c.Leader, c.Data = next.ID, c.volume(next.Ordinal).Data
	}

	return isSent || before != c.Leader
}

// sendSnapshots sends raft snapshots to the members that the leader can dial.
func (c *Cluster) sendSnapshots() bool {
	isSent := false
	for _, leader := range c.Members {
		for _, member := range c.Members {
			if leader.ID == c.Leader && member.NeedsSnapshot && c.RunningMember(leader.Ordinal) != nil && c.RunningMember(member.Ordinal) != nil && c.canDial(leader, member) {
				member.NeedsSnapshot, isSent = false, true
			}
		}
	}

	return isSent
}

// nextLeader returns the first member with the newest data of those that may lead. Nil: none may.
func (c *Cluster) nextLeader() *Member {
	var next *Member
	for _, member := range c.Members {
		if c.mayLead(member) && (next == nil || !c.volume(next.Ordinal).Data.Contains(c.volume(member.Ordinal).Data)) {
			next = member
		}
	}

	return next
}

// mayLead is true for a voting member that is connected to a quorum.
func (c *Cluster) mayLead(candidate *Member) bool {
	connected, all := 0, 0
	for _, member := range c.Members {
		if member.Learner {
			continue
		}
		all++
		if c.areConnected(candidate, member) {
			connected++
		}
	}

	return !candidate.Learner && etcdcluster.IsQuorate(connected, all)
}

// IsConnected is true for a member that is connected to the leader, and needs no raft snapshot. It also is while the leader has stopped and no election has started.
func (c *Cluster) IsConnected(member *Member) bool {
	return c.Leader != 0 && !member.NeedsSnapshot && !slices.ContainsFunc(c.Members, func(leader *Member) bool {
		return leader.ID == c.Leader && c.RunningMember(leader.Ordinal) != nil && !c.areConnected(leader, member)
	})
}

// areConnected is true for running members of which one can dial the registered peer URLs of the other.
func (c *Cluster) areConnected(a, b *Member) bool {
	if c.RunningMember(a.Ordinal) == nil || c.RunningMember(b.Ordinal) == nil {
		return false
	}

	return a == b || c.canDial(a, b) || c.canDial(b, a)
}

// canDial is true with an https URL if both pods have peer certificates and verify them. With an http URL, it is true if the dialed pod has none.
func (c *Cluster) canDial(from, to *Member) bool {
	source, target := c.Objects.PodFor(from.Ordinal), c.Objects.PodFor(to.Ordinal)
	if source == nil || target == nil {
		return true // one of them is a member of the existing cluster, which has no pod
	}
	if c.StrictPorts && !strings.HasSuffix(to.PeerURLs[0], fmt.Sprintf(":%d", target.PeerPort)) {
		return false
	}
	if strings.HasPrefix(to.PeerURLs[0], "https:") {
		return source.PeerTLS && target.PeerTLS && c.arePeersTrusted(source.TLS, target.TLS)
	}

	return !target.PeerTLS
}

// transferLeadership makes the member the leader.
func (c *Cluster) transferLeadership(id uint64) error {
	for _, member := range c.Members {
		if member.ID == id && !member.Learner && c.RunningMember(member.Ordinal) != nil && c.Leader != 0 {
			c.Leader = id

			return nil
		}
	}

	return fmt.Errorf("member %x cannot become the leader", id)
}

// promote makes a learner that has caught up a voting member.
func (c *Cluster) promote(id uint64) error {
	for _, member := range c.Members {
		isInSync := member.CaughtUp*10 >= c.CatchUpTicks*9 // as in etcd
		if member.ID == id && member.Learner && isInSync && c.RunningMember(member.Ordinal) != nil && c.Leader != 0 {
			member.Learner, c.volume(member.Ordinal).Data = false, c.Data

			return nil
		}
	}

	return fmt.Errorf("member %x cannot be promoted", id)
}

// removeMember removes a member. etcd refuses it if the other voting members that run are no quorum.
func (c *Cluster) removeMember(id uint64) error {
	index := slices.IndexFunc(c.Members, func(m *Member) bool { return m.ID == id })
	switch {
	case c.Leader == 0:
		return errors.New("etcd has no leader")
	case index < 0:
		return nil
	}
	running, left := 0, 0
	for _, member := range c.Members {
		if member.ID != id && !member.Learner {
			left++
			if c.RunningMember(member.Ordinal) != nil && c.IsConnected(member) {
				running++
			}
		}
	}
	if !etcdcluster.IsQuorate(running, left) {
		return fmt.Errorf("%d of %d voting members run without member %x", running, left, id)
	}
	removed := c.Members[index]
	c.Members = slices.Delete(c.Members, index, index+1)
	if c.Leader == id {
		c.Leader = 0
	}
	if pod := c.Objects.PodFor(removed.Ordinal); pod != nil {
		c.stopEtcd(pod, "Completed")
	}

	return nil
}

// updatePeerURLs registers peer URLs for a member.
func (c *Cluster) updatePeerURLs(id uint64, urls []string) error {
	for _, member := range c.Members {
		if member.ID == id && c.Leader != 0 {
			member.PeerURLs = urls

			return nil
		}
	}

	return fmt.Errorf("%v cannot be registered for member %x", urls, id)
}
