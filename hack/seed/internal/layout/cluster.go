// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package layout

import "fmt"

// Cluster is one of those that the machine can run beside each other. They share programs, images and the folder of the Local store, and
// have names, networks and ports of their own.
type Cluster int

const (
	// Seed has below the operator what a seed of Gardener has. It is the zero value.
	Seed Cluster = iota
	// Bare is a Kubernetes on which nobody has installed anything: what it has is DNS and volumes.
	Bare
)

// Others are the clusters that may run beside this one.
func (c Cluster) Others() []Cluster { return []Cluster{1 - c} }

// Name is also that of the cluster's folder.
func (c Cluster) Name() string {
	if c == Bare {
		return "bare"
	}

	return "seed"
}

// prefix begins the names of what the cluster makes on the machine.
func (c Cluster) prefix() string { return "druid-" + c.Name() }

// Cgroup is the parent of all pods' cgroups, below each hierarchy's root.
func (c Cluster) Cgroup() string { return c.prefix() }

// Bridge connects the nodes' network namespaces.
func (c Cluster) Bridge() string { return "druid" + c.Name() + "0" }

// Lock is held while a command changes the cluster; Owner beside it names the folder of the one that runs.
func (c Cluster) Lock() string  { return "/run/" + c.prefix() + "/lock" }
func (c Cluster) Owner() string { return "/run/" + c.prefix() + "/owner" }

// HostIP is this machine on the nodes' network; the API server is advertised there.
func (c Cluster) HostIP() string { return fmt.Sprintf("10.250.%d.1", c) }

// NodeCIDR is the nodes' network.
func (c Cluster) NodeCIDR() string { return fmt.Sprintf("10.250.%d.0/%d", c, NodeNetworkBits) }

// PodCIDR covers the pod networks of all nodes.
func (c Cluster) PodCIDR() string { return fmt.Sprintf("10.%d.0.0/16", 244+c) }

// ServiceCIDR is routed from this machine through the first node, so that Services are reachable from here as well.
func (c Cluster) ServiceCIDR() string { return fmt.Sprintf("10.%d.0.0/16", 96+c) }

// ServiceIP is the Service of the API server, DNSIP that of CoreDNS.
func (c Cluster) ServiceIP() string { return fmt.Sprintf("10.%d.0.1", 96+c) }
func (c Cluster) DNSIP() string     { return fmt.Sprintf("10.%d.0.10", 96+c) }

// APIPort, EtcdClientPort and EtcdPeerPort are taken on this machine.
func (c Cluster) APIPort() int        { return c.port(6443) }
func (c Cluster) EtcdClientPort() int { return c.port(12379) }
func (c Cluster) EtcdPeerPort() int   { return c.port(12380) }

// ControllerManagerPort, SchedulerPort and ResourceManagerHealthPort are taken on the loopback interface.
func (c Cluster) ControllerManagerPort() int     { return c.port(10257) }
func (c Cluster) SchedulerPort() int             { return c.port(10259) }
func (c Cluster) ResourceManagerHealthPort() int { return c.port(18081) }

func (c Cluster) port(ofSeed int) int { return ofSeed + 10000*int(c) }
