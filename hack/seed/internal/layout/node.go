// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Node is a node of a cluster.
type Node struct {
	Cluster Cluster
	// Number is the number of the node, from 1.
	Number int
}

// Node returns the node with the number.
func (c Cluster) Node(number int) Node { return Node{Cluster: c, Number: number} }

// Nodes returns the first count nodes.
func (c Cluster) Nodes(count int) []Node {
	nodes := make([]Node, 0, count)
	for i := range count {
		nodes = append(nodes, c.Node(i+1))
	}

	return nodes
}

// ParseNode returns the node with the name.
func (c Cluster) ParseNode(name string) (Node, error) {
	nodes := c.Nodes(MaxNodes)
	if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name() == name }); i >= 0 {
		return nodes[i], nil
	}

	return Node{}, fmt.Errorf("unknown node %q; the nodes are n1 to n%d", name, MaxNodes)
}

// Name is the name of the node, also in Kubernetes.
func (n Node) Name() string { return fmt.Sprintf("n%d", n.Number) }

// IP is the address of the node in the nodes' network.
func (n Node) IP() string { return fmt.Sprintf("10.250.%d.%d", n.Cluster, 10+n.Number) }

// PodCIDR is the pod network of the node.
func (n Node) PodCIDR() string { return fmt.Sprintf("10.%d.%d.0/24", 244+n.Cluster, n.Number) }

// Namespace is the node's network namespace. Link is the host end of the node's veth pair.
func (n Node) Namespace() string { return n.Cluster.prefix() + "-" + n.Name() }
func (n Node) Link() string      { return "druid" + n.Cluster.Name() + "-" + n.Name() }

// Cgroup is the node's cgroup, relative to the root of each hierarchy.
func (n Node) Cgroup() string { return n.Cluster.Cgroup() + "/" + n.Name() }

// NodeDir is the directory with the files of the node.
func (l Layout) NodeDir(n Node) string { return filepath.Join(l.Run, n.Name()) }

// Socket is the socket of the node's containerd.
func (l Layout) Socket(n Node) string { return filepath.Join(l.NodeDir(n), "containerd.sock") }
