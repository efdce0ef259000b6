// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Node is one node of the seed, counted from 1.
type Node int

// Nodes returns the first count nodes.
func Nodes(count int) []Node {
	nodes := make([]Node, 0, count)
	for i := range count {
		nodes = append(nodes, Node(i+1))
	}

	return nodes
}

// ParseNode returns the node with the given name.
func ParseNode(name string) (Node, error) {
	nodes := Nodes(MaxNodes)
	if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name() == name }); i >= 0 {
		return nodes[i], nil
	}

	return 0, fmt.Errorf("no node is called %q; nodes are called n1 to n%d", name, MaxNodes)
}

// Name is also the node's name in Kubernetes.
func (n Node) Name() string { return fmt.Sprintf("n%d", n) }

// IP is the node's address on the nodes' network.
func (n Node) IP() string { return fmt.Sprintf("10.250.0.%d", 10+n) }

// PodCIDR is the network of the node's pods.
func (n Node) PodCIDR() string { return fmt.Sprintf("10.244.%d.0/24", n) }

// Namespace is the node's network namespace, Link this machine's end of its cable.
func (n Node) Namespace() string { return "druid-seed-" + n.Name() }
func (n Node) Link() string      { return fmt.Sprintf("druidseed-n%d", n) }

// Cgroup is relative to each hierarchy's root.
func (n Node) Cgroup() string { return Cgroup + "/" + n.Name() }

// NodeDir keeps everything of one node.
func (l Layout) NodeDir(n Node) string { return filepath.Join(l.Run, n.Name()) }

// Socket is where the node's containerd listens.
func (l Layout) Socket(n Node) string { return filepath.Join(l.NodeDir(n), "containerd.sock") }
