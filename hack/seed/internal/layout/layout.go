// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package layout says where a cluster keeps its files and which addresses and names it uses. It touches nothing itself.
package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// NodeNetworkBits is the prefix length of the nodes' network.
	NodeNetworkBits = 24
	// MaxNodes is bounded by the routes that each node gets to the others.
	MaxNodes = 5
	// LocalStore is where etcd-druid's store provider Local keeps backups when its secret names no other path. All nodes share it.
	LocalStore = "/etc/gardener/local-backupbuckets"
)

const (
	cacheName  = "gardener-extension-etcd-druid"
	moduleLine = "module github.com/gardener/gardener-extension-etcd-druid"
)

// Layout holds the three folders that everything of a cluster lies in.
type Layout struct {
	// Cluster is the one whose layout this is.
	Cluster
	// Root is the checkout of the repository.
	Root string
	// Cache keeps binaries and images between clusters.
	Cache string
	// Run keeps the state of the cluster; `down` removes it.
	Run string
}

// Find returns the layout of a cluster for the checkout that dir lies in. It fails outside of one.
func Find(dir string, cluster Cluster) (Layout, error) {
	root, err := findRoot(dir)
	if err != nil {
		return Layout{}, err
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return Layout{}, fmt.Errorf("finding the cache folder: %w; set HOME or XDG_CACHE_HOME", err)
	}

	cache = filepath.Join(cache, cacheName)

	return Layout{Cluster: cluster, Root: root, Cache: cache, Run: filepath.Join(cache, cluster.Name())}, nil
}

// Of is the layout of another cluster of the same checkout.
func (l Layout) Of(cluster Cluster) Layout {
	return Layout{Cluster: cluster, Root: l.Root, Cache: l.Cache, Run: filepath.Join(l.Cache, cluster.Name())}
}

// Check returns an error when the folder of the cluster is too far down for the sockets below it.
func (l Layout) Check() error {
	const longest = 107 // what the kernel takes

	socket := filepath.Join(l.NodeDir(l.Node(MaxNodes)), "kubelet", "pod-resources", "kubelet.sock")
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

// HostState is what the machine was like before.
func (l Layout) HostState() string { return filepath.Join(l.Run, "host.json") }

// Values are those of the operator's chart.
func (l Layout) Values() string { return filepath.Join(l.Run, "operator-values.yaml") }

// ImageVector is the overwrite that makes the operator use the images that are here.
func (l Layout) ImageVector() string { return filepath.Join(l.Run, "image-vector.yaml") }
