// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Observe returns a copy of Objects. The members are queried as of the last Refresh, unless the spec changed whether they are queried.
func (c *Cluster) Observe() etcdcluster.Observation {
	if c.Objects.Etcd.Queried != c.isQueried() {
		c.Objects.Etcd = c.responses()
	}

	return c.copyOfObjects()
}

// observeMembers is Observe with the responses of all members, as the controller care queries them.
func (c *Cluster) observeMembers() etcdcluster.Observation {
	o := c.copyOfObjects()
	o.Etcd = c.queryMembers()

	return o
}

func (c *Cluster) copyOfObjects() etcdcluster.Observation {
	o := c.Objects
	o.Volumes, o.Inspections = slices.Clone(o.Volumes), slices.Clone(o.Inspections)
	o.Pods, o.Claims, o.MemberLeases = slices.Clone(o.Pods), slices.Clone(o.Claims), slices.Clone(o.MemberLeases)
	for i := range o.Pods {
		o.Pods[i].Containers = slices.Clone(o.Pods[i].Containers)
	}

	return o
}

// Refresh derives the status of claims, nodes and the StatefulSet and the responses of the members from the state of the cluster. Tick and
// Execute call it. An injected fault is therefore observed after the next tick, unless the caller calls Refresh.
func (c *Cluster) Refresh() {
	c.refreshClaims()
	c.refreshVolumes()
	c.Objects.Nodes = nil
	for _, node := range c.Nodes {
		c.Objects.Nodes = append(c.Objects.Nodes, etcdcluster.Node{Name: node.Name, Exists: !node.Gone, OutOfService: node.OutOfService})
	}
	c.Objects.StatefulSet.Replicas, c.Objects.StatefulSet.ReadyReplicas = int32(len(c.Objects.Pods)), 0 // #nosec G115 -- at most seven
	for _, pod := range c.Objects.Pods {
		if pod.Ready {
			c.Objects.StatefulSet.ReadyReplicas++
		}
	}
	c.Objects.Etcd = c.responses()
}

// isQueried is false for a single member, unless a restore is requested: the observer does not query it. The members that run count too, whatever
// the newest spec says.
func (c *Cluster) isQueried() bool {
	_, restores := c.Etcd.Annotations[druidv1alpha1.RestoreAnnotation]
	etcd := helper.WithUpdateStrategy(c.Etcd, c.updateStrategy)

	return c.Etcd.Spec.Replicas != 1 || len(c.Members) > 1 || len(c.Objects.Pods) > 1 || restores || c.Objects.State.ScaleIn != nil ||
		etcdcluster.ExistingCluster(c.Etcd, c.Objects.State) != nil || engine.QueriesOnlyMember(etcd, c.Objects, c.now)
}

// responses returns what the members respond.
func (c *Cluster) responses() etcdcluster.EtcdResponses {
	if !c.isQueried() {
		return etcdcluster.EtcdResponses{}
	}

	return c.queryMembers()
}

func (c *Cluster) queryMembers() etcdcluster.EtcdResponses {
	responses := etcdcluster.EtcdResponses{
		Queried: true, Existing: c.existingResponses(), Alarms: c.Alarms, MemberListError: "no member is healthy",
	}
	for _, pod := range c.Objects.Pods {
		if pod.Deleting || pod.Node == "" {
			continue
		}
		status := c.endpointStatus(pod)
		if status.Healthy && status.ClusterID == c.clusterID {
			responses.MemberListError = ""
		}
		responses.Members = append(responses.Members, status)
	}
	if responses.MemberListError == "" {
		responses.MemberList = c.memberList()
		responses.ClusterVersion = clusterVersion(responses.Members)
	}

	return responses
}

// clusterVersion is the oldest minor version of the members, as the leader decides it if all members respond. Empty: no member reports a version.
func clusterVersion(members []etcdcluster.EndpointStatus) string {
	oldest, before := "", ""
	for _, member := range members {
		if member.Version == before {
			continue
		}
		before = member.Version
		if minor := etcdversion.MinorOf(member.Version); minor != "" && (oldest == "" || etcdversion.Compare(minor, oldest) < 0) {
			oldest = minor
		}
	}
	if oldest == "" {
		return ""
	}

	return oldest + ".0"
}

// raftIndex is the number of entries in the log of the leader.
const raftIndex = 10000

func (c *Cluster) endpointStatus(pod etcdcluster.Pod) etcdcluster.EndpointStatus {
	if c.foreignData[pod.Ordinal] && etcdContainer(&pod).State == etcdcluster.ContainerRunning {
		return etcdcluster.EndpointStatus{
			Ordinal: pod.Ordinal, Reachable: true, Healthy: true, MemberID: 0xfe, ClusterID: foreignClusterID, LeaderID: 0xfe, Revision: 1, QuorumRevision: 1,
		}
	}
	member := c.RunningMember(pod.Ordinal)
	if member == nil || member.NeedsSnapshot {
		return etcdcluster.EndpointStatus{Ordinal: pod.Ordinal}
	}
	status := c.statuses[member.ID]
	status.Ordinal, status.Reachable, status.Error, status.Learner = pod.Ordinal, true, "", member.Learner
	status.MemberID, status.ClusterID, status.LeaderID = member.ID, c.clusterID, c.Leader
	if !c.IsConnected(member) {
		status.LeaderID = 0
	}
	if version := cmp.Or(c.Process(pod.UID).EtcdVersion, c.Objects.State.EtcdVersion); version != "" && !strings.HasPrefix(status.Version, version+".") {
		status.Version = version + ".0"
	}
	status.RaftIndex, status.RaftAppliedIndex = raftIndex, raftIndex
	if member.Learner {
		status.RaftAppliedIndex = uint64(min(raftIndex, raftIndex*member.CaughtUp/max(c.CatchUpTicks, 1))) // #nosec G115 -- never negative
	}
	status.Healthy = !member.Learner && c.IsConnected(member)
	status.Revision = max(c.volume(pod.Ordinal).Data.Revision, 1)
	if status.Healthy {
		status.Revision, status.QuorumRevision = c.Data.Revision, c.Data.Revision
	}

	return status
}

func (c *Cluster) memberList() []etcdcluster.ListedMember {
	var list []etcdcluster.ListedMember
	for _, member := range c.Members {
		listed := etcdcluster.ListedMember{ID: member.ID, Learner: member.Learner, PeerURLs: member.PeerURLs}
		if member.Started {
			listed.Name = helper.MemberName(c.Etcd, member.Ordinal)
			if existing := c.existing[member.Ordinal]; existing != nil {
				listed.Name = existing.name
			}
		}
		list = append(list, listed)
	}

	return list
}
