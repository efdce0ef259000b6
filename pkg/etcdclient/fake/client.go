// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Connect implements etcdclient.Connector. Calls to an address without a member fail with ErrUnreachable.
func (c *Cluster) Connect(_ context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	return &client{cluster: c, address: target.Address}, nil
}

// Disconnect implements etcdclient.Connector.
func (c *Cluster) Disconnect(etcdclient.Target) {}

type client struct {
	cluster *Cluster
	address string
}

// call calls do with the member at the address. It holds the lock of the cluster.
func (c *client) call(do func(*memberState) error) error {
	c.cluster.lock.Lock()
	defer c.cluster.lock.Unlock()
	c.cluster.calls++
	for _, m := range c.cluster.members {
		if m.address == c.address && !m.stopped {
			return do(m)
		}
	}

	return fmt.Errorf("%s: %w", c.address, etcdclient.ErrUnreachable)
}

// firstIndex is the index of the raft log before the first write. No lag is larger.
const firstIndex = 10000

// Status implements etcdclient.Client.
func (c *client) Status(context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	var status etcdcluster.EndpointStatus
	var alarms []etcdcluster.Alarm
	err := c.call(func(m *memberState) error {
		status = etcdcluster.EndpointStatus{
			Reachable: true, MemberID: m.ID, ClusterID: c.cluster.ID, LeaderID: c.cluster.leader, Learner: m.Learner,
			RaftTerm: c.cluster.term, RaftIndex: firstIndex + uint64(c.cluster.revision), RaftAppliedIndex: firstIndex + uint64(c.cluster.revision) - m.lag, // #nosec G115 -- never negative
			Revision: c.cluster.revision, Version: cmp.Or(m.version, c.cluster.Version), DBSize: m.size, DBSizeInUse: m.inUse,
			Healthy: !m.Learner && !m.hung && c.cluster.leader != 0,
		}
		if status.Healthy {
			status.QuorumRevision = status.Revision
		} else {
			status.Error = "the member has no leader, is a learner, or does not complete reads"
		}
		alarms = slices.Clone(c.cluster.alarms)

		return nil
	})

	return status, alarms, err
}

// Read implements etcdclient.Client.
func (c *client) Read(context.Context) (etcdclient.ResponseHeader, error) {
	var header etcdclient.ResponseHeader
	err := c.call(func(m *memberState) error {
		if m.Learner || m.hung || c.cluster.leader == 0 {
			return errors.New("linearizable read: the member has no leader, is a learner, or does not complete reads")
		}
		header = etcdclient.ResponseHeader{ClusterID: c.cluster.ID, MemberID: m.ID, RaftTerm: c.cluster.term, Revision: c.cluster.revision}

		return nil
	})

	return header, err
}

// EndpointStatus implements etcdclient.Client.
func (c *client) EndpointStatus(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	status, alarms, err := c.Status(ctx)
	status.Healthy, status.QuorumRevision, status.Error = false, 0, ""

	return status, alarms, err
}

// IsAuthEnabled implements etcdclient.Client.
func (c *client) IsAuthEnabled(context.Context) (bool, error) {
	var enabled bool
	err := c.call(func(*memberState) error {
		enabled = c.cluster.authEnabled

		return nil
	})

	return enabled, err
}

// ClusterVersion implements etcdclient.Client. It returns the oldest version of all members.
func (c *client) ClusterVersion(context.Context) (string, error) {
	var oldest *version.Version
	err := c.call(func(*memberState) error {
		for _, m := range c.cluster.members {
			reported, err := version.ParseGeneric(cmp.Or(m.version, c.cluster.Version))
			if err != nil {
				return err
			}
			if oldest == nil || reported.LessThan(oldest) {
				oldest = reported
			}
		}

		return nil
	})
	if err != nil {
		return "", err
	}

	return oldest.WithPatch(0).String(), nil
}

// Health implements etcdclient.Client.
func (c *client) Health(context.Context) error {
	return c.call(func(m *memberState) error {
		if m.hung || c.cluster.leader == 0 || len(c.cluster.alarms) > 0 {
			return errors.New("health: the member has no leader, does not complete reads, or knows an alarm")
		}

		return nil
	})
}

// MemberList implements etcdclient.Client.
func (c *client) MemberList(context.Context) ([]etcdcluster.ListedMember, error) {
	var listed []etcdcluster.ListedMember
	err := c.call(func(m *memberState) error {
		if m.Learner || c.cluster.leader == 0 {
			return errors.New("member list: no quorum read from this member")
		}
		for _, other := range c.cluster.members {
			listed = append(listed, other.ListedMember)
		}

		return nil
	})

	return listed, err
}

// Revision implements etcdclient.Client.
func (c *client) Revision(context.Context) (int64, error) {
	var revision int64
	err := c.call(func(m *memberState) error {
		if m.Learner || c.cluster.leader == 0 {
			return errors.New("linearizable read: no quorum read from this member")
		}
		revision = c.cluster.revision

		return nil
	})

	return revision, err
}

// Defragment implements etcdclient.Client.
func (c *client) Defragment(context.Context) error {
	return c.call(func(m *memberState) error {
		if c.cluster.onDefragment != nil {
			if err := c.cluster.onDefragment(m.ID); err != nil {
				return err
			}
		}
		m.size = m.inUse

		return nil
	})
}

// MoveLeader implements etcdclient.Client.
func (c *client) MoveLeader(_ context.Context, to uint64) error {
	return c.call(func(m *memberState) error {
		if m.ID != c.cluster.leader {
			return errors.New("moving the leader: the member is not the leader")
		}
		if target := c.cluster.find(to); target.Learner || target.stopped {
			return errors.New("moving the leader: the target is not a running voting member")
		}
		c.cluster.leader = to
		c.cluster.term++

		return nil
	})
}

// UpdatePeerURLs implements etcdclient.Client.
func (c *client) UpdatePeerURLs(_ context.Context, id uint64, urls []string) error {
	return c.call(func(*memberState) error {
		if c.cluster.leader == 0 {
			return errors.New("updating peer URLs: there is no leader")
		}
		c.cluster.find(id).PeerURLs = urls

		return nil
	})
}

// Promote implements etcdclient.Client.
func (c *client) Promote(_ context.Context, learner uint64) error {
	return c.call(func(*memberState) error {
		if c.cluster.leader == 0 {
			return errors.New("promoting the learner: there is no leader")
		}
		target := c.cluster.find(learner)
		if !target.Learner || target.stopped {
			return errors.New("promoting the learner: the member is not a running learner")
		}
		target.Learner = false

		return nil
	})
}

// RejectWrites implements etcdclient.Client.
func (c *client) RejectWrites(context.Context) (int64, error) {
	revision := int64(0)
	err := c.call(func(m *memberState) error {
		if m.Learner || c.cluster.leader == 0 {
			return errors.New("rejecting writes: no quorum")
		}
		c.cluster.rejectWrites()
		revision = c.cluster.revision

		return nil
	})

	return revision, err
}

// AllowWrites implements etcdclient.Client.
func (c *client) AllowWrites(context.Context) error {
	return c.call(func(*memberState) error {
		if c.cluster.leader == 0 {
			return errors.New("allowing writes: there is no leader")
		}
		c.cluster.alarms = slices.DeleteFunc(c.cluster.alarms, func(alarm etcdcluster.Alarm) bool {
			return slices.Contains(etcdcluster.WriteRejections, alarm)
		})

		return nil
	})
}

// RemoveMember implements etcdclient.Client. Running members other than the removed one must be a quorum.
func (c *client) RemoveMember(_ context.Context, id uint64) error {
	return c.call(func(*memberState) error {
		if c.cluster.leader == 0 {
			return errors.New("removing the member: there is no leader")
		}
		running, voters := 0, 0
		for _, other := range c.cluster.members {
			if other.ID == id || other.Learner {
				continue
			}
			voters++
			if !other.stopped {
				running++
			}
		}
		if running <= voters/2 {
			return fmt.Errorf("%w: removing the member: unhealthy cluster", etcdclient.ErrQuorumUnsafe)
		}
		c.cluster.members = slices.DeleteFunc(c.cluster.members, func(other *memberState) bool { return other.ID == id })
		c.cluster.elect()

		return nil
	})
}

// Compact implements etcdclient.Client. All running members remove the history.
func (c *client) Compact(_ context.Context, revision int64) error {
	return c.call(func(*memberState) error {
		switch {
		case c.cluster.leader == 0:
			return errors.New("compacting the history: there is no leader")
		case revision > c.cluster.revision:
			return errors.New("compacting the history: a future revision")
		case revision <= c.cluster.compacted:
			return nil
		}
		c.cluster.compacted = revision
		for _, other := range c.cluster.members {
			other.inUse = other.withoutHistory
		}

		return nil
	})
}

// Disarm implements etcdclient.Client.
func (c *client) Disarm(_ context.Context, alarm etcdcluster.Alarm) error {
	return c.call(func(*memberState) error {
		switch {
		case c.cluster.leader == 0:
			return errors.New("disarming the alarm: there is no leader")
		case slices.ContainsFunc(c.cluster.alarms, func(other etcdcluster.Alarm) bool { return other.Type != alarm.Type }):
			return fmt.Errorf("disarming the alarm: %w", etcdclient.ErrOtherAlarm)
		}
		c.cluster.alarms = slices.DeleteFunc(c.cluster.alarms, func(other etcdcluster.Alarm) bool { return other == alarm })

		return nil
	})
}

// CountKeys implements etcdclient.Client.
func (c *client) CountKeys(context.Context) ([]etcdcluster.KeyCount, error) {
	var keys []etcdcluster.KeyCount
	err := c.call(func(*memberState) error {
		keys = slices.Clone(c.cluster.keys)

		return nil
	})

	return keys, err
}

// HashKV implements etcdclient.Client. All members have the same data, except those of SetHash.
func (c *client) HashKV(_ context.Context, revision int64) (hash uint32, compacted int64, err error) {
	err = c.call(func(m *memberState) error {
		if revision > c.cluster.revision {
			return errors.New("hash of the keys: a future revision")
		}
		hash, compacted = m.hash, cmp.Or(m.compacted, c.cluster.compacted)

		return nil
	})

	return hash, compacted, err
}
