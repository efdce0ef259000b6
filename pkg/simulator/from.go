// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// From returns a cluster that continues from the observation of a real cluster. running is the manifests of what the cluster runs now, from the
// same renderer as the manifests of later calls of Apply. Nil: they are derived from the StatefulSet. What the observation does not contain is
// assumed to be healthy. Containers start, unless their image cannot be pulled. There are free nodes, and the store is reachable.
func From(o etcdcluster.Observation, etcd *druidv1alpha1.Etcd, now time.Time, running *Manifest) *Cluster {
	c := empty(etcd, now)
	c.Objects = o
	c.Objects = c.copyOfObjects()
	c.CatchUpTicks, c.SlowOrphaning = 2, true
	c.Objects.ManagedResource.Name = helper.ManagedResourceName(etcd)
	if o.StatefulSet.Exists {
		c.restoreManifest(running)
	}
	c.restoreNodes()
	c.restoreVolumes()
	c.restoreMembers()
	c.restoreCorruption()
	c.restoreExisting()
	c.restoreProcesses()
	c.restoreRevisions()
	c.Alarms = o.Etcd.Alarms
	c.Refresh()

	return c
}

// restoreRevisions assumes that the cluster, its volumes and the store have the highest revision of which anything is known.
func (c *Cluster) restoreRevisions() {
	highest := int64(1)
	if recorded := c.Objects.State.Evidence; recorded != nil {
		highest = max(highest, recorded.HighestRevision)
	}
	for _, lease := range []etcdcluster.Lease{c.Objects.FullSnapshotLease, c.Objects.DeltaSnapshotLease} {
		if revision, err := strconv.ParseInt(lease.Holder, 10, 64); err == nil {
			highest = max(highest, revision)
		}
	}
	for _, member := range c.Objects.Etcd.Members {
		highest = max(highest, member.Revision, member.QuorumRevision)
	}
	c.Data = c.Data.At(highest)
	_, _ = c.Store.Add(c.Data, c.now, false) // the store is reachable
	for _, volume := range c.Volumes {
		volume.Data = c.Data
	}
	for _, existing := range c.existing {
		existing.volume.Data = c.Data
	}
}

// restoreManifest sets what was applied. The revision of the newest pod template becomes that of the manifests.
func (c *Cluster) restoreManifest(running *Manifest) {
	set := &c.Objects.StatefulSet
	if running == nil {
		running = c.manifestOf(*set)
	}
	c.applied = running
	if c.Objects.ManagedResource.Exists {
		c.written = running
	}
	for i := range c.Objects.Pods {
		if pod := &c.Objects.Pods[i]; pod.RevisionHash == set.UpdateRevision {
			pod.RevisionHash = running.Revision
		}
	}
	set.UpdateRevision, set.Rendering.Checksum = running.Revision, running.Rendering.Checksum
}

func (c *Cluster) manifestOf(set etcdcluster.StatefulSet) *Manifest {
	manifest := &Manifest{
		Rendering: set.Rendering, Revision: set.UpdateRevision, Replicas: set.SpecReplicas, ClusterSize: 1, TLS: set.TLS, PeerPort: set.PeerPort, Store: set.Store,
		EtcdVersion: c.Objects.State.EtcdVersion,
	}
	if accepted := c.Objects.State.Accepted; accepted != nil && accepted.Certificates != nil {
		manifest.CertificatesChecksum = accepted.Certificates.Renewed
	}
	if set.HasPreStopHook {
		manifest.ClusterSize = max(c.Objects.State.Size, set.SpecReplicas, 2)
	}
	for i := range c.Objects.Pods {
		if pod := &c.Objects.Pods[i]; manifest.Image == "" || pod.RevisionHash == set.UpdateRevision {
			manifest.Image = etcdContainer(pod).Image
		}
	}

	return manifest
}

// restoreNodes adds the nodes of pods and volumes, and free nodes for members that join.
func (c *Cluster) restoreNodes() {
	known := map[string]*Node{}
	for _, node := range c.Objects.Nodes {
		known[node.Name] = &Node{Name: node.Name, Gone: !node.Exists, OutOfService: node.OutOfService}
	}
	add := func(name string) *Node {
		if name != "" && known[name] == nil {
			known[name] = &Node{Name: name}
		}

		return known[name]
	}
	for _, pod := range c.Objects.Pods {
		if node := add(pod.Node); node != nil && pod.IsNodeUnreachable() {
			node.Partitioned = true
		}
	}
	for _, claim := range c.Objects.Claims {
		for _, name := range claim.Nodes {
			add(name)
		}
	}
	for index := range maxMembers {
		add(fmt.Sprintf("free-%d", index+1))
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		c.Nodes = append(c.Nodes, known[name])
	}
}

// restoreVolumes adds the volumes of the claims. Volumes can be used on every node if no claim names one.
func (c *Cluster) restoreVolumes() {
	c.NetworkVolumes = true
	for _, claim := range c.Objects.Claims {
		if claim.RefusedSize > 0 {
			c.quotaExhausted, c.refusedAt[claim.UID] = true, c.now
		}
		c.FixedVolumes = c.FixedVolumes || claim.Expandable != nil && !*claim.Expandable
		if !claim.Exists || !claim.Bound && !claim.Lost {
			continue
		}
		volume := &Volume{Lost: claim.Lost, Size: claim.Capacity, Name: claim.Volume, ClaimUID: claim.UID}
		if observed := c.Objects.Volume(claim.Volume); observed != nil {
			volume.UID, volume.Policy, volume.Static, volume.RetainedFor = observed.UID, observed.ReclaimPolicy, !observed.Dynamic, observed.RetainedFor
		}
		if pod := c.Objects.PodFor(claim.Ordinal); pod != nil {
			volume.Node = pod.Node
		}
		if len(claim.Nodes) > 0 {
			volume.Node, c.NetworkVolumes = claim.Nodes[0], false
		}
		c.Volumes[claim.Name] = volume
	}
	for _, observed := range c.Objects.Volumes {
		isOfClaim := slices.ContainsFunc(c.Objects.Claims, func(claim etcdcluster.Claim) bool { return claim.Volume == observed.Name })
		if observed.Exists && !isOfClaim {
			c.Released = append(c.Released, &Volume{
				Name: observed.Name, UID: observed.UID, Policy: observed.ReclaimPolicy, Static: !observed.Dynamic, RetainedFor: observed.RetainedFor, ClaimUID: observed.ClaimUID,
			})
		}
	}
}

// restoreMembers derives the members from their responses, else from their Leases, else from their claims.
func (c *Cluster) restoreMembers() {
	c.clusterID = 1
	size := max(int(etcdcluster.LastSize(c.Objects)), len(c.Objects.Pods))
	for _, member := range etcdcluster.MembersOf(c.Etcd, c.Objects, int32(size)) { // #nosec G115 -- a few members
		id := c.idOf(member)
		if id == 0 {
			continue
		}
		c.nextID = max(c.nextID, id)
		c.Members = append(c.Members, c.memberFrom(member, id))
		if volume := c.volume(member.Ordinal); volume != nil {
			volume.Member = id
		}
		status := member.Endpoint
		switch {
		case status == nil || !status.Reachable:
		case len(c.statuses) > 0 && status.ClusterID != c.clusterID:
			if c.foreignData == nil {
				c.foreignData = map[int]bool{}
			}
			c.foreignData[member.Ordinal] = true

			continue
		default:
			c.statuses[id], c.clusterID = *status, status.ClusterID
		}
		if status != nil && status.IsLeader() || c.Leader == 0 && member.IsHealthy() {
			c.Leader = id
		}
	}
}

// idOf returns the ID of a member. A member with a volume and without any record of its ID has an invented one. 0: there is no such member.
func (c *Cluster) idOf(member etcdcluster.Member) uint64 {
	switch volume := c.volume(member.Ordinal); {
	case member.ID() != 0:
		return member.ID()
	case member.Listed != nil:
		return member.Listed.ID
	case len(c.Objects.Etcd.MemberList) == 0 && volume != nil:
		return uint64(member.Ordinal) + 1 // #nosec G115 -- an ordinal
	default:
		return 0
	}
}

func (c *Cluster) memberFrom(member etcdcluster.Member, id uint64) *Member {
	if listed := member.Listed; listed != nil && len(listed.PeerURLs) > 0 {
		return &Member{ID: id, Ordinal: member.Ordinal, Learner: listed.Learner, PeerURLs: listed.PeerURLs, Started: listed.Name != ""}
	}
	pod := etcdcluster.Pod{Ordinal: member.Ordinal, PeerPort: c.Objects.StatefulSet.PeerPort, PeerTLS: c.Objects.StatefulSet.TLS.Peer != ""}
	if member.Lease != nil && member.Lease.TLSEnabled != nil {
		pod.PeerTLS = *member.Lease.TLSEnabled
	}
	if member.Pod != nil {
		pod = *member.Pod
	}

	return &Member{ID: id, Ordinal: member.Ordinal, PeerURLs: c.peerURLs(&pod), Started: true}
}

// restoreProcesses derives how each pod was rendered. The sidecar of a ready pod has registered the peer URLs of its member.
func (c *Cluster) restoreProcesses() {
	for i := range c.Objects.Pods {
		pod := &c.Objects.Pods[i]
		if pod.NeverStarts() {
			c.brokenImages[etcdContainer(pod).Image] = true
		}
		process := c.Process(pod.UID)
		process.ClusterSize, process.HasStore = 1, pod.Store != "" && helper.IsStoreConfigured(c.Etcd)
		if pod.HasPreStopHook {
			process.ClusterSize = max(c.Objects.State.Size, 2)
		}
		process.HasServed, process.HasRegistered = pod.Ready, pod.Ready
		if pod.Ready {
			process.LastReadyAt = c.now
		}
	}
}
