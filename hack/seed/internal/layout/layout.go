// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package layout says where the seed keeps its files and which addresses and names it uses. It touches nothing itself.
package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Addresses of the seed. They are fixed: one machine runs one seed.
const (
	// HostIP is this machine on the nodes' network; the API server is advertised there.
	HostIP = "10.250.0.1"
	// NodeNetworkBits is the prefix length of the nodes' network.
	NodeNetworkBits = 24
	// NodeCIDR is the nodes' network.
	NodeCIDR = "10.250.0.0/24"
	// PodCIDR covers the pod networks of all nodes.
	PodCIDR = "10.244.0.0/16"
	// ServiceCIDR is routed from this machine through the first node, so that Services are reachable from here as well.
	ServiceCIDR = "10.96.0.0/16"
	// ServiceIP is the Service of the API server, DNSIP that of CoreDNS.
	ServiceIP = "10.96.0.1"
	DNSIP     = "10.96.0.10"
	// APIPort, EtcdClientPort and EtcdPeerPort are taken on this machine.
	APIPort        = 6443
	EtcdClientPort = 12379
	EtcdPeerPort   = 12380
	// ControllerManagerPort and SchedulerPort are taken on the loopback interface; they are the defaults of these programs.
	ControllerManagerPort = 10257
	SchedulerPort         = 10259
	// ResourceManagerHealthPort is taken on the loopback interface.
	ResourceManagerHealthPort = 18081
	// MaxNodes is bounded by the routes that each node gets to the others.
	MaxNodes = 5
	// Bridge connects the nodes' network namespaces.
	Bridge = "druidseed0"
	// Cgroup is the parent of all pods' cgroups, below each hierarchy's root.
	Cgroup = "druid-seed"
	// LocalStore is where etcd-druid's store provider Local keeps backups when its secret names no other path. All nodes share it.
	LocalStore = "/etc/gardener/local-backupbuckets"
	// Lock is held while a command changes the seed; Owner beside it names the folder of the seed that runs.
	Lock  = "/run/druid-seed/lock"
	Owner = "/run/druid-seed/owner"
)

const (
	cacheName  = "gardener-extension-etcd-druid"
	moduleLine = "module github.com/gardener/gardener-extension-etcd-druid"
)

// Layout holds the three folders that everything lies in.
type Layout struct {
	// Root is the checkout of the repository.
	Root string
	// Cache keeps binaries and images between seeds.
	Cache string
	// Run keeps the state of the one seed; `down` removes it.
	Run string
}

// Find returns the layout for the checkout that dir lies in. It fails outside of one.
func Find(dir string) (Layout, error) {
	root, err := findRoot(dir)
	if err != nil {
		return Layout{}, err
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return Layout{}, fmt.Errorf("finding the cache folder: %w; set HOME or XDG_CACHE_HOME", err)
	}

	cache = filepath.Join(cache, cacheName)

	return Layout{Root: root, Cache: cache, Run: filepath.Join(cache, "seed")}, nil
}

// Check returns an error when the folder of the seed is too far down for the sockets below it.
func (l Layout) Check() error {
	const longest = 107 // what the kernel takes

	socket := filepath.Join(l.NodeDir(MaxNodes), "kubelet", "pod-resources", "kubelet.sock")
	if len(socket) > longest {
		return fmt.Errorf("the path %s is too long for a socket, by %d characters; set XDG_CACHE_HOME to a folder with a shorter name",
			socket, len(socket)-longest)
	}

	return nil
}

func findRoot(dir string) (string, error) {
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), moduleLine+"\n") {
			return dir, nil
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside a checkout of gardener-extension-etcd-druid; run it as `go run -C hack/seed .`")
		}

		dir = parent
	}
}

// PKI, Logs, Pids, Volumes and Images are folders below Run, and below Cache for the images.
func (l Layout) PKI() string     { return filepath.Join(l.Run, "pki") }
func (l Layout) Logs() string    { return filepath.Join(l.Run, "logs") }
func (l Layout) Pids() string    { return filepath.Join(l.Run, "pids") }
func (l Layout) Volumes() string { return filepath.Join(l.Run, "volumes") }
func (l Layout) Images() string  { return filepath.Join(l.Cache, "images") }

// Kubeconfig is that of the administrator.
func (l Layout) Kubeconfig() string { return filepath.Join(l.PKI(), "admin.kubeconfig") }

// AuditLog records every write that the API server accepted or refused, as JSON lines.
func (l Layout) AuditLog() string { return filepath.Join(l.Logs(), "audit.log") }

// ImageVector is the overwrite that makes the operator use the images of the seed.
func (l Layout) ImageVector() string { return filepath.Join(l.Run, "image-vector.yaml") }
