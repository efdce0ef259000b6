// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package layout defines the paths, addresses and names of a cluster. It changes nothing on the machine.
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
	// MaxNodes bounds the number of nodes, since each node has routes to all others.
	MaxNodes = 5
	// LocalStore is the default directory of etcd-druid's store provider Local. All nodes share it.
	LocalStore = "/etc/gardener/local-backupbuckets"
)

const (
	cacheName  = "gardener-extension-etcd-druid"
	moduleLine = "module github.com/gardener/gardener-extension-etcd-druid"
)

// Layout contains the three directories of a cluster.
type Layout struct {
	// Cluster is the cluster with this layout.
	Cluster
	// Root is the root of the checkout.
	Root string
	// Cache contains the binaries and images, which all clusters share.
	Cache string
	// Run contains the state of the cluster. `down` removes it.
	Run string
}

// Find returns the layout of a cluster of the checkout that contains dir. It returns an error outside a checkout.
func Find(dir string, cluster Cluster) (Layout, error) {
	root, err := findRoot(dir)
	if err != nil {
		return Layout{}, err
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return Layout{}, fmt.Errorf("finding the cache directory: %w; set HOME or XDG_CACHE_HOME", err)
	}

	cache = filepath.Join(cache, cacheName)

	return Layout{Cluster: cluster, Root: root, Cache: cache, Run: filepath.Join(cache, cluster.Name())}, nil
}

// Of returns the layout of another cluster of the same checkout.
func (l Layout) Of(cluster Cluster) Layout {
	return Layout{Cluster: cluster, Root: l.Root, Cache: l.Cache, Run: filepath.Join(l.Cache, cluster.Name())}
}

// Check returns an error if the path of the cluster's directory is too long for the sockets below it.
func (l Layout) Check() error {
	const longest = 107 // limit of the kernel

	socket := filepath.Join(l.NodeDir(l.Node(MaxNodes)), "kubelet", "pod-resources", "kubelet.sock")
	if len(socket) > longest {
		return fmt.Errorf("the path %s is too long for a socket, by %d characters; set XDG_CACHE_HOME to a directory with a shorter path",
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

// PKI, Logs, Pids and Volumes are directories below Run. Images is a directory below Cache.
func (l Layout) PKI() string     { return filepath.Join(l.Run, "pki") }
func (l Layout) Logs() string    { return filepath.Join(l.Run, "logs") }
func (l Layout) Pids() string    { return filepath.Join(l.Run, "pids") }
func (l Layout) Volumes() string { return filepath.Join(l.Run, "volumes") }
func (l Layout) Images() string  { return filepath.Join(l.Cache, "images") }

// UserImages is the directory of the image archives that the user selected for this cluster. `down` removes it.
func (l Layout) UserImages() string { return filepath.Join(l.Run, "user-images") }

// Kubeconfig is the path of the administrator's kubeconfig.
func (l Layout) Kubeconfig() string { return filepath.Join(l.PKI(), "admin.kubeconfig") }

// AuditLog is the path of the file in which the API server records every write as a JSON line, including rejected
// writes.
func (l Layout) AuditLog() string { return filepath.Join(l.Logs(), "audit.log") }

// HostState is the path of the file with the saved state of the machine.
func (l Layout) HostState() string { return filepath.Join(l.Run, "host.json") }

// Values is the path of the values for the operator's chart.
func (l Layout) Values() string { return filepath.Join(l.Run, "operator-values.yaml") }

// ImageVector is the path of the image vector overwrite with the images of the seed.
func (l Layout) ImageVector() string { return filepath.Join(l.Run, "image-vector.yaml") }
