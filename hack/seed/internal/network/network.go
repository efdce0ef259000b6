// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package network creates the network of a cluster. It consists of a bridge on this machine and a network namespace for each node. A veth
// pair connects each namespace to the bridge. The package uses the program `ip`.
package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

// EnsureBridge creates the bridge with this machine's address in the nodes' network.
func EnsureBridge(ctx context.Context, c layout.Cluster) error {
	if !linkExists(c.Bridge()) {
		if err := process.Run(ctx, "ip", "link", "add", c.Bridge(), "type", "bridge"); err != nil {
			return fmt.Errorf("creating the bridge: %w", err)
		}
	}

	return runAll(ctx,
		fmt.Sprintf("ip addr replace %s/%d dev %s", c.HostIP(), layout.NodeNetworkBits, c.Bridge()),
		"ip link set "+c.Bridge()+" up",
	)
}

// RemoveBridge removes the bridge with its address and routes.
func RemoveBridge(ctx context.Context, c layout.Cluster) error {
	if !linkExists(c.Bridge()) {
		return nil
	}

	return process.Run(ctx, "ip", "link", "del", c.Bridge())
}

// EnsureNode creates the node's network namespace with its veth pair and routes. If they exist, EnsureNode only
// connects the node again.
func EnsureNode(ctx context.Context, n layout.Node) error {
	if IsWhole(n) {
		return runAll(ctx, append(hostRoutes(n), "ip link set "+n.Link()+" master "+n.Cluster.Bridge()+" up")...)
	}

	if err := RemoveNode(ctx, n); err != nil { // an incomplete network is created again
		return err
	}

	inside := "nsenter --net=" + Path(n) + " "
	commands := []string{
		"ip netns add " + n.Namespace(),
		"ip link add " + n.Link() + " type veth peer name eth0 netns " + n.Namespace(),
		"ip link set " + n.Link() + " master " + n.Cluster.Bridge() + " up",
		inside + "ip link set lo up",
		inside + fmt.Sprintf("ip addr add %s/%d dev eth0", n.IP(), layout.NodeNetworkBits),
		inside + "ip link set eth0 up",
		inside + "ip route add default via " + n.Cluster.HostIP(),
		inside + "sysctl -qw net.ipv4.ip_forward=1",
	}
	commands = append(commands, hostRoutes(n)...)

	for _, other := range n.Cluster.Nodes(layout.MaxNodes) {
		if other != n {
			commands = append(commands, inside+"ip route add "+other.PodCIDR()+" via "+other.IP())
		}
	}

	if err := runAll(ctx, commands...); err != nil {
		return fmt.Errorf("creating the network of node %s: %w", n.Name(), err)
	}

	return nil
}

// EnsurePodAddresses creates the node's network namespace, in which the addresses of all pods of the cluster are local addresses. A process
// in the namespace that listens on all addresses accepts the connections to every pod.
func EnsurePodAddresses(ctx context.Context, n layout.Node) error {
	if err := EnsureNode(ctx, n); err != nil {
		return err
	}

	inside := "nsenter --net=" + Path(n) + " "

	return runAll(ctx,
		// The kernel searches the tables main and local together. It would prefer the more specific routes to the other nodes.
		inside+"ip route flush table main root "+n.Cluster.PodCIDR(),
		inside+"ip route replace local "+n.Cluster.PodCIDR()+" dev lo",
	)
}

// RemoveNode removes the network namespace and the veth pair.
func RemoveNode(ctx context.Context, n layout.Node) error {
	var errs []error

	if linkExists(n.Link()) {
		errs = append(errs, process.Run(ctx, "ip", "link", "del", n.Link()))
	}

	if namespaceExists(n) {
		errs = append(errs, process.Run(ctx, "ip", "netns", "del", n.Namespace()))
	}

	_ = process.Run(ctx, "ip", "route", "del", n.PodCIDR()) // the route would go with the bridge, which may stay

	return errors.Join(errs...)
}

// SetConnected connects the node to the network or disconnects it.
func SetConnected(ctx context.Context, n layout.Node, connected bool) error {
	if !linkExists(n.Link()) {
		return fmt.Errorf("node %s has no network; is the seed running?", n.Name())
	}

	state := "down"
	if connected {
		state = "up"
	}

	return process.Run(ctx, "ip", "link", "set", n.Link(), state)
}

// IsConnected returns whether the node is connected to the network.
func IsConnected(n layout.Node) bool {
	content, err := os.ReadFile("/sys/class/net/" + n.Link() + "/operstate")
	return err == nil && strings.TrimSpace(string(content)) == "up"
}

// Exists returns whether the node has a network, connected or not.
func Exists(n layout.Node) bool { return linkExists(n.Link()) }

// IsWhole returns whether both the network namespace and the veth pair of the node exist.
func IsWhole(n layout.Node) bool { return namespaceExists(n) && linkExists(n.Link()) }

// Path is the file of the node's network namespace for `nsenter`. `ip netns exec` would hide the cgroups.
func Path(n layout.Node) string { return "/run/netns/" + n.Namespace() }

// hostRoutes returns the commands that add this machine's routes: to the node's pods and, through the first node and
// its kube-proxy, to the Services.
func hostRoutes(n layout.Node) []string {
	routes := []string{"ip route replace " + n.PodCIDR() + " via " + n.IP()}
	if n.Number == 1 {
		routes = append(routes, "ip route replace "+n.Cluster.ServiceCIDR()+" via "+n.IP())
	}

	return routes
}

func linkExists(name string) bool {
	_, err := os.Stat("/sys/class/net/" + name)
	return err == nil
}

// namespaceExists returns whether the file exists. It does not check that the file is a network namespace.
func namespaceExists(n layout.Node) bool {
	_, err := os.Stat(Path(n))
	return err == nil
}

func runAll(ctx context.Context, commands ...string) error {
	for _, command := range commands {
		if err := process.Run(ctx, strings.Fields(command)...); err != nil {
			return err
		}
	}

	return nil
}
