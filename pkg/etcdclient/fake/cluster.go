// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package fake implements package etcdclient with an in-memory etcd cluster for tests. A test can stop and start members. The running
// voting members elect a leader. Without a quorum no member is healthy.
//
// What may not live here: canned responses, and anything that production code imports.
package fake

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Cluster is one etcd cluster. It is safe for concurrent use.
type Cluster struct {
	// ID is the cluster ID.
	ID uint64
	// Version is the version of etcd of members for which SetVersion sets no other.
	Version string

	lock     sync.Mutex
	members  []*memberState
	leader   uint64
	term     uint64
	revision int64
	alarms   []etcdcluster.Alarm
	calls    int
	// compacted is the revision up to which the history was removed.
	compacted int64
	keys      []etcdcluster.KeyCount

	authEnabled bool

	onDefragment func(id uint64) error
}

type memberState struct {
	etcdcluster.ListedMember
	address string
	stopped bool
	// hung is true if the member completes no linearizable read.
	hung bool
	// version of etcd. Empty: that of the cluster.
	version string
	// hash of the data, and compacted is the revision up to which the history was removed, if that is not the one of the cluster.
	hash      uint32
	compacted int64
	lag       uint64
	// size is the size of the database file in bytes, and inUse the part that holds data.
	size, inUse int64
	// withoutHistory is what is in use after a compaction.
	withoutHistory int64
}

// The sizes of a database in bytes, unless SetDatabase sets others.
const (
	defaultSize  = 8192
	defaultInUse = 4096
)

func newMember(listed etcdcluster.ListedMember, address string) *memberState {
	return &memberState{ListedMember: listed, address: address, size: defaultSize, inUse: defaultInUse, withoutHistory: defaultInUse}
}

var _ etcdclient.Connector = (*Cluster)(nil)

// NewCluster returns a cluster without members.
func NewCluster(id uint64) *Cluster { return &Cluster{ID: id, Version: "3.4.34", revision: 1} }

// AddMember adds a running voting member. Address is its client address, host:port. The first member becomes the leader.
func (c *Cluster) AddMember(id uint64, name, address string) {
	c.change(func() {
		c.members = append(c.members, newMember(etcdcluster.ListedMember{
			ID: id, Name: name, PeerURLs: []string{"http://" + name + ":2380"}, ClientURLs: []string{"http://" + address},
		}, address))
	})
}

// AddLearner adds a running learner. Address is its client address, host:port.
func (c *Cluster) AddLearner(id uint64, name, address string) {
	c.change(func() {
		c.members = append(c.members, newMember(etcdcluster.ListedMember{
			ID: id, Name: name, PeerURLs: []string{"http://" + name + ":2380"}, ClientURLs: []string{"http://" + address}, Learner: true,
		}, address))
	})
}

// SetVersion sets the version of etcd that a member reports.
func (c *Cluster) SetVersion(id uint64, version string) {
	c.change(func() { c.find(id).version = version })
}

// SetHash sets the hash of the data of a member. Members without it have the hash 0.
func (c *Cluster) SetHash(id uint64, hash uint32) { c.change(func() { c.find(id).hash = hash }) }

// Hash returns the hash of the data of a member.
func (c *Cluster) Hash(id uint64) uint32 {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.find(id).hash
}

// SetCompacted sets the revision up to which a member was compacted. 0: the one of the cluster.
func (c *Cluster) SetCompacted(id uint64, revision int64) {
	c.change(func() { c.find(id).compacted = revision })
}

// SetLag sets how many entries of the log a member lacks. Members without it lack none.
func (c *Cluster) SetLag(id, entries uint64) { c.change(func() { c.find(id).lag = entries }) }

// Hang lets a member complete no linearizable read, although it reports its status. This simulates a disk that does not respond.
func (c *Cluster) Hang(id uint64) { c.change(func() { c.find(id).hung = true }) }

// SetAuth enables or disables the authentication of clients by user and role.
func (c *Cluster) SetAuth(enabled bool) {
	c.change(func() { c.authEnabled = enabled })
}

// SetPeerURLs replaces the registered peer URLs of a member.
func (c *Cluster) SetPeerURLs(id uint64, urls ...string) {
	c.change(func() { c.find(id).PeerURLs = urls })
}

// SetRevision sets the revision of a cluster that was restored.
func (c *Cluster) SetRevision(revision int64) { c.change(func() { c.revision = revision }) }

// Term returns the term of the last election.
func (c *Cluster) Term() uint64 {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.term
}

// Members returns the member list, including stopped members.
func (c *Cluster) Members() []etcdcluster.ListedMember {
	c.lock.Lock()
	defer c.lock.Unlock()
	var listed []etcdcluster.ListedMember
	for _, m := range c.members {
		listed = append(listed, m.ListedMember)
	}

	return listed
}

// Clone returns a copy of the cluster in its current state.
func (c *Cluster) Clone() *Cluster {
	c.lock.Lock()
	defer c.lock.Unlock()
	other := &Cluster{ID: c.ID, Version: c.Version, leader: c.leader, term: c.term, revision: c.revision, alarms: slices.Clone(c.alarms), compacted: c.compacted, keys: c.keys}
	for _, m := range c.members {
		other.members = append(other.members, new(*m))
	}

	return other
}

// RemoveMember removes a member from the member list. The member no longer responds.
func (c *Cluster) RemoveMember(id uint64) {
	c.change(func() {
		c.members = slices.DeleteFunc(c.members, func(m *memberState) bool { return m.ID == id })
	})
}

// SetLearner turns a member into a learner or a voting member.
func (c *Cluster) SetLearner(id uint64, learner bool) {
	c.change(func() { c.find(id).Learner = learner })
}

// Stop makes a member unreachable.
func (c *Cluster) Stop(id uint64) { c.change(func() { c.find(id).stopped = true }) }

// Start makes a member reachable again.
func (c *Cluster) Start(id uint64) { c.change(func() { c.find(id).stopped = false }) }

// Move changes the client address of a member. This simulates a new pod.
func (c *Cluster) Move(id uint64, address string) { c.change(func() { c.find(id).address = address }) }

// Raise raises an alarm of a member.
func (c *Cluster) Raise(alarm etcdcluster.Alarm) {
	c.change(func() { c.alarms = append(c.alarms, alarm) })
}

// Write creates a revision, as a client does. It fails without a quorum.
func (c *Cluster) Write() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	switch {
	case c.leader == 0:
		return errors.New("no leader")
	case c.rejectsWrites():
		return errors.New("etcdserver: corrupt cluster")
	case len(c.alarms) > 0:
		return errors.New("etcdserver: mvcc: database space exceeded")
	}
	c.revision++

	return nil
}

// RejectWrites makes the cluster reject all writes, as a client that calls it does.
func (c *Cluster) RejectWrites() {
	c.change(c.rejectWrites)
}

// RejectsWrites is true while the cluster rejects all writes because of RejectWrites.
func (c *Cluster) RejectsWrites() bool {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.rejectsWrites()
}

func (c *Cluster) rejectWrites() {
	for _, alarm := range etcdcluster.WriteRejections {
		if !slices.Contains(c.alarms, alarm) {
			c.alarms = append(c.alarms, alarm)
		}
	}
}

func (c *Cluster) rejectsWrites() bool { return slices.Contains(c.alarms, etcdcluster.WriteRejection) }

// Revision returns the newest revision, which is 1 before the first write.
func (c *Cluster) Revision() int64 {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.revision
}

// OnDefragment sets the function that each Defragment calls with the ID of its member. Defragment returns the error of the
// function. The function must not call the cluster. If it is nil, Defragment succeeds.
func (c *Cluster) OnDefragment(defragment func(id uint64) error) {
	c.change(func() { c.onDefragment = defragment })
}

// SetDatabase sets the sizes of the database of a member in bytes. A compaction reduces what is in use to compacted.
func (c *Cluster) SetDatabase(id uint64, size, inUse, compacted int64) {
	c.change(func() {
		m := c.find(id)
		m.size, m.inUse, m.withoutHistory = size, inUse, compacted
	})
}

// SetKeys sets the numbers of keys by prefix.
func (c *Cluster) SetKeys(keys ...etcdcluster.KeyCount) { c.change(func() { c.keys = keys }) }

// Compacted returns the revision up to which the history was removed. 0: it was not.
func (c *Cluster) Compacted() int64 {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.compacted
}

// Alarms returns the alarms that are raised.
func (c *Cluster) Alarms() []etcdcluster.Alarm {
	c.lock.Lock()
	defer c.lock.Unlock()

	return slices.Clone(c.alarms)
}

// DatabaseSize returns the size of the database file of a member in bytes.
func (c *Cluster) DatabaseSize(id uint64) int64 {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.find(id).size
}

// Leader returns the member ID of the leader, or 0 if there is no leader.
func (c *Cluster) Leader() uint64 {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.leader
}

// Calls returns the number of calls to members so far.
func (c *Cluster) Calls() int {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.calls
}

func (c *Cluster) change(apply func()) {
	c.lock.Lock()
	defer c.lock.Unlock()
	apply()
	c.elect()
}

// elect keeps the leader if it runs and has a quorum. Otherwise the first running voting member becomes the leader.
func (c *Cluster) elect() {
	var running []uint64
	voters := 0
	for _, m := range c.members {
		if m.Learner {
			continue
		}
		voters++
		if !m.stopped {
			running = append(running, m.ID)
		}
	}
	switch {
	case !etcdcluster.IsQuorate(len(running), voters):
		c.leader = 0
	case !slices.Contains(running, c.leader):
		c.leader = running[0]
		c.term++
	}
}

// find returns the member with the ID. It panics if the test uses an unknown ID.
func (c *Cluster) find(id uint64) *memberState {
	for _, m := range c.members {
		if m.ID == id {
			return m
		}
	}
	panic(fmt.Sprintf("no member %x", id))
}
