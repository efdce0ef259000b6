// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"slices"
)

// Cluster is one of the clusters that this machine can run at the same time. They share programs, images and the
// directory of the Local store. Each has its own names, networks and ports.
type Cluster int

const (
	// Seed is the cluster with what a Gardener seed has. It is the zero value.
	Seed Cluster = iota
	// Bare is a Kubernetes cluster with only DNS and volumes.
	Bare
	// Bench is a cluster with what a Gardener seed has, except that KWOK simulates the nodes and their pods. It is for measurements with
	// more pods than this machine can run.
	Bench
	// Garden is a cluster without nodes, for the API of Gardener. Its users find the Shoots there.
	Garden
	// Shoots is a cluster with one node, which the gardenlet of the garden makes a seed. The control planes of Shoots run in it.
	Shoots
)

// names are the names of the clusters. portOffsets are the differences between their ports and those of the seed. The offsets keep
// all ports below the range from which the kernel takes local ports.
var (
	names       = []string{Seed: "seed", Bare: "bare", Bench: "bench", Garden: "garden", Shoots: "shoots"}
	portOffsets = []int{Seed: 0, Bare: 10000, Bench: 5000, Garden: 15000, Shoots: 19000}
)

// ParseCluster returns the cluster with the name. It returns false if no cluster has the name.
func ParseCluster(name string) (Cluster, bool) {
	index := slices.Index(names, name)
	return Cluster(max(index, 0)), index >= 0
}

// HasResourceManager returns whether this tool installs gardener-resource-manager and Gardener's CustomResourceDefinitions. In the cluster
// Shoots, gardenlet does.
func (c Cluster) HasResourceManager() bool { return c == Seed || c == Bench }

// HasNetworkPolicies returns whether the cluster enforces NetworkPolicies. On the seed, that would change the durations that tests measure.
func (c Cluster) HasNetworkPolicies() bool { return c == Bare || c == Shoots }

// Others returns the other clusters that may run on this machine.
func (c Cluster) Others() []Cluster {
	var others []Cluster

	for i := range names {
		if Cluster(i) != c {
			others = append(others, Cluster(i))
		}
	}

	return others
}

// Name is the name of the cluster and of its directory.
func (c Cluster) Name() string { return names[c] }

// prefix is the prefix of the names that the cluster uses on the machine.
func (c Cluster) prefix() string { return "druid-" + c.Name() }

// Cgroup is the parent of all pods' cgroups, relative to the root of each hierarchy.
func (c Cluster) Cgroup() string { return c.prefix() }

// SystemCgroup is the cgroup of the control plane, and of the kubelets and the container runtimes, relative to the root of each hierarchy.
func (c Cluster) SystemCgroup() string { return c.prefix() + "-system" }

// Bridge is the name of the bridge that connects the nodes' network namespaces.
func (c Cluster) Bridge() string { return "druid" + c.Name() + "0" }

// Lock is the path of the file that a command locks while it changes the cluster. The file Owner contains the directory
// of the running cluster.
func (c Cluster) Lock() string  { return "/run/" + c.prefix() + "/lock" }
func (c Cluster) Owner() string { return "/run/" + c.prefix() + "/owner" }

// HostIP is the address of this machine in the nodes' network. The API server advertises it.
func (c Cluster) HostIP() string { return fmt.Sprintf("10.250.%d.1", c) }

// NodeCIDR is the nodes' network.
func (c Cluster) NodeCIDR() string { return fmt.Sprintf("10.250.%d.0/%d", c, NodeNetworkBits) }

// PodCIDR contains the pod networks of all nodes.
func (c Cluster) PodCIDR() string { return fmt.Sprintf("10.%d.0.0/16", 244+c) }

// SimulatedCIDR is the part of PodCIDR that no node has. Simulated pods have their addresses in it. The address is that of the first pod.
func (c Cluster) SimulatedCIDR() string { return fmt.Sprintf("10.%d.255.1/24", 244+c) }

// ServiceCIDR is the network of the Services. This machine routes it through the first node, so that it can reach
// Services too.
func (c Cluster) ServiceCIDR() string { return fmt.Sprintf("10.%d.0.0/16", 96+c) }

// ServiceIP is the address of the API server's Service. DNSIP is the address of CoreDNS's Service.
func (c Cluster) ServiceIP() string { return fmt.Sprintf("10.%d.0.1", 96+c) }
func (c Cluster) DNSIP() string     { return fmt.Sprintf("10.%d.0.10", 96+c) }

// APIPort, EtcdClientPort and EtcdPeerPort are ports of this machine.
func (c Cluster) APIPort() int        { return c.port(6443) }
func (c Cluster) EtcdClientPort() int { return c.port(12379) }
func (c Cluster) EtcdPeerPort() int   { return c.port(12380) }

// The following ports are used on the loopback interface of this machine.
func (c Cluster) ControllerManagerPort() int      { return c.port(10257) }
func (c Cluster) SchedulerPort() int              { return c.port(10259) }
func (c Cluster) ResourceManagerHealthPort() int  { return c.port(18081) }
func (c Cluster) ResourceManagerMetricsPort() int { return c.port(18082) }
func (c Cluster) ResourceManagerWebhookPort() int { return c.port(9449) }

// GardenerAPIPort is the port of gardener-apiserver on this machine. The other two are those of gardener-controller-manager.
func (c Cluster) GardenerAPIPort() int                 { return c.port(8443) }
func (c Cluster) GardenerControllerManagerPort() int   { return c.port(2718) }
func (c Cluster) GardenerControllerManagerHealth() int { return c.port(2719) }

func (c Cluster) port(ofSeed int) int { return ofSeed + portOffsets[c] }
