// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// firstExisting is the ordinal of the first member of the existing cluster. No pod has it.
const firstExisting = 100

// existingMember is a member of the cluster that the Etcd joins. Its pod is not simulated.
type existingMember struct {
	name    string
	stopped bool
	// readds is true if its sidecar adds it again as a learner after its removal, as long as another member of the cluster votes.
	readds bool
	// readdedAt is when its sidecar did so.
	readdedAt time.Time
	volume    Volume
}

// readdPeriod is the least time between two attempts of a sidecar to add its member again.
const readdPeriod = 15 * time.Second

// AddExisting adds running voting members of an existing cluster, which the Etcd joins.
func (c *Cluster) AddExisting(names ...string) {
	if c.existing == nil {
		c.existing = map[int]*existingMember{}
	}
	for _, name := range names {
		ordinal := firstExisting + len(c.existing)
		c.nextID++
		c.existing[ordinal] = &existingMember{name: name, volume: Volume{Member: c.nextID, Data: c.Data}}
		c.Members = append(c.Members, &Member{ID: c.nextID, Ordinal: ordinal, PeerURLs: []string{existingURL(name, 2380)}, Started: true})
		if c.Leader == 0 {
			c.Leader = c.nextID
		}
	}
	c.Refresh()
}

// StopExisting stops the member of the existing cluster with the name, or starts it again.
func (c *Cluster) StopExisting(name string, stopped bool) {
	for _, existing := range c.existing {
		if existing.name == name {
			existing.stopped = stopped
		}
	}
}

// ReaddExisting lets the sidecars of the existing cluster add their members again after a removal, or stops that.
func (c *Cluster) ReaddExisting(readds bool) {
	for _, existing := range c.existing {
		existing.readds = readds
	}
}

// IsExisting is true for a member of the existing cluster.
func (c *Cluster) IsExisting(member *Member) bool { return c.existing[member.Ordinal] != nil }

// existingSidecars add removed members of the existing cluster again as learners. The request goes to a voting member of that cluster.
func (c *Cluster) existingSidecars() bool {
	hasVoter := slices.ContainsFunc(c.Members, func(m *Member) bool { return c.IsExisting(m) && !m.Learner && c.RunningMember(m.Ordinal) != nil })
	for _, ordinal := range slices.Sorted(maps.Keys(c.existing)) {
		existing := c.existing[ordinal]
		isLearnerListed := slices.ContainsFunc(c.Members, func(m *Member) bool { return m.Learner })
		if !existing.readds || existing.stopped || c.Member(ordinal) != nil || !hasVoter || isLearnerListed || c.Leader == 0 || c.now.Sub(existing.readdedAt) < readdPeriod {
			continue
		}
		c.nextID++
		existing.volume.Member, existing.readdedAt = c.nextID, c.now
		c.Members = append(c.Members, &Member{ID: c.nextID, Ordinal: ordinal, Learner: true, PeerURLs: []string{existingURL(existing.name, 2380)}})

		return true
	}

	return false
}

func existingURL(name string, port int) string { return fmt.Sprintf("http://%s:%d", name, port) }

// existingResponses are the responses of the client endpoints of the existing cluster.
func (c *Cluster) existingResponses() []etcdcluster.EndpointStatus {
	if len(c.existing) == 0 {
		return c.Objects.Etcd.Existing
	}
	var responses []etcdcluster.EndpointStatus
	for _, ordinal := range slices.Sorted(maps.Keys(c.existing)) {
		status := etcdcluster.EndpointStatus{Endpoint: c.existing[ordinal].name + ":2379", Error: "it has stopped"}
		if member := c.RunningMember(ordinal); member != nil {
			status.Reachable, status.Error, status.MemberID, status.ClusterID, status.Learner = true, "", member.ID, c.clusterID, member.Learner
			status.Healthy = !member.Learner && c.IsConnected(member)
			if c.IsConnected(member) {
				status.LeaderID = c.Leader
			}
		}
		responses = append(responses, status)
	}

	return responses
}

// recordJoin records the joined cluster in the status when all members of the Etcd vote, as the care controller does.
func (c *Cluster) recordJoin() {
	bootstrap, voters := c.Etcd.Spec.Etcd.BootstrapWithExistingCluster, int32(0)
	for _, member := range c.Members {
		if !member.Learner && !c.IsExisting(member) {
			voters++
		}
	}
	if bootstrap == nil || c.Etcd.Status.BootstrapWithExistingCluster != nil || len(c.existing) == 0 || voters == 0 || voters < c.Etcd.Spec.Replicas {
		return
	}
	joined := &druidv1alpha1.BootstrapWithExistingClusterStatus{JoinedAt: metav1.NewTime(c.now)}
	for _, member := range bootstrap.Members {
		joined.Members = append(joined.Members, druidv1alpha1.BootstrapJoinedMember(member))
	}
	c.Etcd.Status.BootstrapWithExistingCluster = joined
}

// restoreExisting adds the listed members of the joined cluster. A voting member that did not respond counts as healthy, because a quorum read
// returned the list.
func (c *Cluster) restoreExisting() {
	c.existing = map[int]*existingMember{}
	leaving := etcdcluster.ListedLeaving(c.Etcd, c.Objects)
	for _, listed := range c.Objects.Etcd.MemberList {
		isLeaving := slices.ContainsFunc(leaving, func(m etcdcluster.ListedMember) bool { return m.ID == listed.ID })
		if !isLeaving && !etcdcluster.IsOfExisting(c.Etcd, listed.Name) {
			continue
		}
		ordinal := firstExisting + len(c.existing)
		c.existing[ordinal] = &existingMember{name: listed.Name, volume: Volume{Member: listed.ID}}
		c.Members = append(c.Members, &Member{ID: listed.ID, Ordinal: ordinal, Learner: listed.Learner, PeerURLs: listed.PeerURLs, Started: listed.Name != ""})
		for _, member := range c.Objects.Etcd.Members {
			if member.Healthy && member.LeaderID == listed.ID {
				c.Leader = listed.ID
			}
		}
	}
}
