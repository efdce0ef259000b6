// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Node is a node on which pods can run.
type Node struct {
	// Name of the node.
	Name string
	// Partitioned is true while the node is unreachable. Its containers keep running.
	Partitioned bool
	// Gone is true when the node does not exist any more.
	Gone bool
	// OutOfService is true while the node has the taint node.kubernetes.io/out-of-service.
	OutOfService bool
}

func (n Node) isUsable() bool { return !n.Gone && !n.Partitioned && !n.OutOfService }

// Node returns the node with the name. Nil: there is none.
func (c *Cluster) Node(name string) *Node {
	for _, node := range c.Nodes {
		if node.Name == name {
			return node
		}
	}

	return nil
}

// scheduler assigns pods to nodes.
func (c *Cluster) scheduler() bool {
	changed := false
	for i := range c.Objects.Pods {
		pod := &c.Objects.Pods[i]
		if pod.Node != "" || pod.Deleting {
			continue
		}
		before, claim := pod.Unschedulable, c.claim(pod.Ordinal)
		if node := c.nodeFor(claim); node == nil {
			pod.Unschedulable = "no node fits"
		} else {
			pod.Unschedulable, pod.Node, changed = "", node.Name, true
			c.provision(claim, node)
		}
		changed = changed || before != pod.Unschedulable
	}

	return changed
}

// nodeFor returns the node of the volume of a claim, or the first node without a pod if the volume can be used there. Nil: none fits, or no volume of
// the StorageClass can be provisioned.
func (c *Cluster) nodeFor(claim *etcdcluster.Claim) *Node {
	volume := c.Volumes[claim.Name]
	if !claim.Exists || claim.Deleting || volume != nil && volume.Lost || volume == nil && c.brokenClasses[claim.StorageClass] {
		return nil
	}
	for _, node := range c.Nodes {
		hasPod := slices.ContainsFunc(c.Objects.Pods, func(pod etcdcluster.Pod) bool { return pod.Node == node.Name })
		hasVolume := volume != nil && volume.Node == node.Name && !c.NetworkVolumes
		if node.isUsable() && (hasVolume || (volume == nil || c.NetworkVolumes) && !hasPod) {
			return node
		}
	}

	return nil
}
