// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package network makes a cluster's small network: a bridge on this machine, and for each node a network namespace with one cable to it.
// It uses the `ip` program, and knows nothing of what runs in the namespaces.
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

// EnsureBridge makes the bridge and gives it this machine's address on the nodes' network.
func EnsureBridge(ctx context.Context, c layout.Cluster) error {
	if !linkExists(c.Bridge()) {
		if err := process.Run(ctx, "ip", "link", "add", c.Bridge(), "type", "bridge"); err != nil {
			return fmt.Errorf("making the bridge: %w", err)
		}
	}

	return runAll(ctx,
		fmt.Sprintf("ip addr replace %s/%d dev %s", c.HostIP(), layout.NodeNetworkBits, c.Bridge()),
		"ip link set "+c.Bridge()+" up",
	)
}

// RemoveBridge removes the bridge, with its address and the routes through it.
func RemoveBridge(ctx context.Context, c layout.Cluster) error {
	if !linkExists(c.Bridge()) {
		return nil
	}

	return process.Run(ctx, "ip", "link", "del", c.Bridge())
}

// EnsureNode makes the node's namespace with its cable and routes. One that is there already is only connected again.
func EnsureNode(ctx context.Context, n layout.Node) error {
	if IsWhole(n) {
		return runAll(ctx, append(hostRoutes(n), "ip link set "+n.Link()+" master "+n.Cluster.Bridge()+" up")...)
	}

	if err := RemoveNode(ctx, n); err != nil { // half of a network is worth nothing
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
		return fmt.Errorf("making the network of node %s: %w", n.Name(), err)
	}

	return nil
}

// RemoveNode removes the namespace and the cable; the routes go with the cable's other end or the bridge.
func RemoveNode(ctx context.Context, n layout.Node) error {
	var errs []error

	if linkExists(n.Link()) {
		errs = append(errs, process.Run(ctx, "ip", "link", "del", n.Link()))
	}

	if namespaceExists(n) {
		errs = append(errs, process.Run(ctx, "ip", "netns", "del", n.Namespace()))
	}

	_ = process.Run(ctx, "ip", "route", "del", n.PodCIDR()) // goes with the bridge, but the bridge may stay

	return errors.Join(errs...)
}

// SetConnected plugs the node's cable in or out.
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

// IsConnected tells whether the node's cable is plugged in.
func IsConnected(n layout.Node) bool {
	content, err := os.ReadFile("/sys/class/net/" + n.Link() + "/operstate")
	return err == nil && strings.TrimSpace(string(content)) == "up"
}

// Exists tells whether the node has a network at all, connected or not.
func Exists(n layout.Node) bool { return linkExists(n.Link()) }

// IsWhole tells whether the node has both its namespace and its cable.
func IsWhole(n layout.Node) bool { return namespaceExists(n) && linkExists(n.Link()) }

// Path is the file by which the node's namespace is entered, with `nsenter`: `ip netns exec` would hide the cgroups.
func Path(n layout.Node) string { return "/run/netns/" + n.Namespace() }

// hostRoutes lead from this machine to the node's pods and, through the first node and its kube-proxy, to the Services.
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

// namespaceExists looks for the file alone: whether it is a namespace shows as soon as it is entered.
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
