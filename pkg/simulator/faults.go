// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// A fault on a pod or node that does not exist changes nothing.

// DeletePod deletes the pod of a member, as a user does.
func (c *Cluster) DeletePod(ordinal int) {
	if pod := c.Objects.PodFor(ordinal); pod != nil {
		c.terminate(pod)
	}
}

// FailReadiness lets the readiness probe of a pod fail once. etcd keeps running.
func (c *Cluster) FailReadiness(ordinal int) {
	if pod := c.Objects.PodFor(ordinal); pod != nil {
		setUnready(pod, c.now)
	}
}

// StopEtcd ends the etcd container of a pod. The kubelet starts it again.
func (c *Cluster) StopEtcd(ordinal int) {
	if pod := c.Objects.PodFor(ordinal); pod != nil {
		c.stopEtcd(pod, "OOMKilled")
	}
}

// StopEtcdBehindStore ends the etcd container of a pod while its database is older than the newest delta snapshot. A sidecar that was rendered
// with size 1 compares the two, tries to start etcd alone, and restores the store if that fails. Next to another voting member it always
// fails, since one of two members has no quorum. The sidecar of a larger cluster does not compare.
func (c *Cluster) StopEtcdBehindStore(ordinal int) {
	pod, member := c.Objects.PodFor(ordinal), c.RunningMember(ordinal)
	if pod == nil || member == nil {
		return
	}
	c.stopEtcd(pod, "OOMKilled")
	c.Process(pod.UID).StoppedBehindStore, c.Process(pod.UID).RestoresAt = c.now, c.now.Add(c.RestoreDelay)
	if c.RestoreDelay == 0 {
		c.restoreAlone(pod)
	}
	c.Refresh()
}

// SecondCluster is in the report about a sidecar that restores a second cluster.
const SecondCluster = "restores a second cluster"

// restoreAlone lets the sidecar of a pod restore a second cluster, if it was rendered with size 1 and another member votes.
func (c *Cluster) restoreAlone(pod *etcdcluster.Pod) {
	process := c.Process(pod.UID)
	process.RestoresAt = time.Time{}
	if _, voters := c.Voters(); process.ClusterSize == 1 && process.HasStore && voters > 1 {
		c.report("the sidecar of %s was rendered with size 1, and %s next to %d voting members", pod.Name, SecondCluster, voters-1)
		c.CorruptVolume(pod.Ordinal)
		c.UseForeignData(pod.Ordinal)
	}
}

// BreakSidecar lets the sidecar of a pod not start any more, while etcd runs.
func (c *Cluster) BreakSidecar(ordinal int) {
	if pod := c.Objects.PodFor(ordinal); pod != nil {
		c.Process(pod.UID).SidecarBroken = true
	}
}

// SetImageBroken sets whether containers with the image cannot start.
func (c *Cluster) SetImageBroken(image string, isBroken bool) { c.brokenImages[image] = isBroken }

// SetClassBroken sets whether volumes of the StorageClass cannot be provisioned, for example because it does not exist.
func (c *Cluster) SetClassBroken(class string, isBroken bool) { c.brokenClasses[class] = isBroken }

// UseForeignData makes a member run on the data of another cluster.
func (c *Cluster) UseForeignData(ordinal int) { c.foreignData = map[int]bool{ordinal: true} }

// RemoveForeignData empties the volume with the data of another cluster.
func (c *Cluster) RemoveForeignData() { c.foreignData = nil }

// HasForeignData is true while a member runs on the data of another cluster.
func (c *Cluster) HasForeignData() bool { return c.foreignData != nil }

// PartitionNode sets whether a node is unreachable.
func (c *Cluster) PartitionNode(name string, isPartitioned bool) {
	if node := c.Node(name); node != nil {
		node.Partitioned = isPartitioned
	}
}

// RemoveNode removes a node, and the volumes that can only be used there are lost with it.
func (c *Cluster) RemoveNode(name string) {
	if node := c.Node(name); node != nil {
		node.Gone = true
	}
}

// TaintNode taints a node as out of service.
func (c *Cluster) TaintNode(name string) {
	if node := c.Node(name); node != nil {
		node.OutOfService = true
	}
}

// LoseVolume removes the volume of a member. Its claim stays.
func (c *Cluster) LoseVolume(ordinal int) {
	if volume := c.volume(ordinal); volume != nil {
		volume.Lost = true
	}
}

// CorruptVolume makes the data in the volume of a member useless.
func (c *Cluster) CorruptVolume(ordinal int) {
	if volume := c.volume(ordinal); volume != nil {
		volume.Member = 0
	}
}

// CorruptAllVolumes makes the data in all volumes useless.
func (c *Cluster) CorruptAllVolumes() {
	for _, volume := range c.Volumes {
		volume.Member = 0
	}
}

// MoveLeadership makes the first running voting member that does not lead the leader, and returns its ID. 0: there is none, or no leader.
func (c *Cluster) MoveLeadership() uint64 {
	index := slices.IndexFunc(c.Members, func(m *Member) bool { return m.ID != c.Leader && c.transferLeadership(m.ID) == nil })
	if index < 0 {
		return 0
	}

	return c.Leader
}

// RefuseEvictions lets the API server refuse the next evictions. 0: it refuses none.
func (c *Cluster) RefuseEvictions(count int) { c.refusedEvictions = count }

// SetQuotaExhausted sets whether the quota has no room for larger volumes.
func (c *Cluster) SetQuotaExhausted(isExhausted bool) { c.quotaExhausted = isExhausted }

// IsQuotaExhausted is true while the quota has no room for larger volumes.
func (c *Cluster) IsQuotaExhausted() bool { return c.quotaExhausted }

// Corrupt changes values on the volume of a member. Members with the same corruption have the same data. 0 repairs it.
func (c *Cluster) Corrupt(ordinal int, corruption uint32) { c.volume(ordinal).Corruption = corruption }

// IncrementGeneration makes the spec another generation, for which no snapshot was taken yet.
func (c *Cluster) IncrementGeneration() {
	c.Etcd.Generation++
	c.Objects.SnapshotAttempts = etcdcluster.SnapshotAttempts{}
}

// RecreateEtcd deletes the Etcd and creates it again. Its claims stay, except those with the ordinals.
func (c *Cluster) RecreateEtcd(without ...int) {
	c.written, c.applied, c.Leader = nil, nil, 0
	c.Etcd.CreationTimestamp, c.Etcd.Status = metav1.NewTime(c.now), druidv1alpha1.EtcdStatus{}
	o := &c.Objects
	o.Pods, o.MemberLeases, o.StatefulSet, o.State = nil, nil, etcdcluster.StatefulSet{}, state.State{}
	o.FullSnapshotLease, o.DeltaSnapshotLease = etcdcluster.Lease{}, etcdcluster.Lease{}
	o.ManagedResource = etcdcluster.ManagedResource{Name: o.ManagedResource.Name}
	for _, ordinal := range without {
		c.removeClaim(c.claim(ordinal))
	}
	c.IncrementGeneration()
	c.Refresh()
}

// RestartPods deletes all pods at once. The StatefulSet controller has created them again when RestartPods returns.
func (c *Cluster) RestartPods() {
	c.Objects.Pods = nil
	c.statefulSetController()
}

// DeleteClaim deletes the claim of a member without a pod, and its volume, as a user does.
func (c *Cluster) DeleteClaim(ordinal int) {
	c.removeClaim(c.claim(ordinal))
	c.Refresh()
}

// ExpireJobs removes the Jobs that have ended, as their time to live does.
func (c *Cluster) ExpireJobs() {
	c.Objects.RestoreVerification, c.Objects.Inspections = etcdcluster.RestoreVerification{}, nil
}
