// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package kind creates a cluster with kind, which runs nodes as containers. It needs docker, podman or nerdctl on this machine.
package kind

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	kindcmd "sigs.k8s.io/kind/pkg/cmd"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

const (
	// Name is the name of the cluster.
	Name         = "etcd-druid"
	workers      = 3
	readyTimeout = 5 * time.Minute
)

// Config returns the configuration of a cluster with a control plane and three workers, each in its own zone. All nodes share the
// directory of the host for stores with the provider Local.
func Config(localStore string) *v1alpha4.Cluster {
	store := v1alpha4.Mount{HostPath: localStore, ContainerPath: layout.LocalStore}
	config := &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Name:     Name,
		Nodes:    []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole, ExtraMounts: []v1alpha4.Mount{store}}},
	}

	for i := range workers {
		config.Nodes = append(config.Nodes, v1alpha4.Node{
			Role:        v1alpha4.WorkerRole,
			Labels:      map[string]string{"topology.kubernetes.io/region": "kind", "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i+1)},
			ExtraMounts: []v1alpha4.Mount{store},
		})
	}

	return config
}

// Cluster is the cluster on the container engine of this machine.
type Cluster struct{ provider *cluster.Provider }

// Find returns the cluster, running or not. It returns an error with the remedy if this machine has no container engine.
func Find() (Cluster, error) {
	engine, err := cluster.DetectNodeProvider()
	if err != nil {
		return Cluster{}, fmt.Errorf("kind needs docker, podman or nerdctl, and this machine has none that works (%w): install one, or use the local seed with `make up`", err)
	}

	return Cluster{provider: cluster.NewProvider(engine, cluster.ProviderWithLogger(kindcmd.NewLogger()))}, nil
}

// Ensure creates the cluster if it does not exist, and writes its kubeconfig to the file.
func (c Cluster) Ensure(config *v1alpha4.Cluster, kubeconfig string) error {
	names, err := c.provider.List()
	if err != nil {
		return fmt.Errorf("listing the clusters of kind: %w; check that the container engine runs, or use the local seed with `make up`", err)
	}

	if slices.Contains(names, Name) {
		return c.provider.ExportKubeConfig(Name, kubeconfig, false)
	}

	return c.provider.Create(Name, cluster.CreateWithV1Alpha4Config(config), cluster.CreateWithKubeconfigPath(kubeconfig), cluster.CreateWithWaitForReady(readyTimeout))
}

// Load loads the docker archive into every node.
func (c Cluster) Load(archive string) error {
	nodes, err := c.provider.ListInternalNodes(Name)
	if err != nil {
		return fmt.Errorf("listing the nodes of kind: %w", err)
	}

	for _, node := range nodes {
		file, err := os.Open(archive) // #nosec G304 -- the archive that this program has packed
		if err != nil {
			return err
		}

		if err := errors.Join(nodeutils.LoadImageArchive(node, file), file.Close()); err != nil {
			return fmt.Errorf("loading %s into node %s: %w", archive, node, err)
		}
	}

	return nil
}

// Delete deletes the cluster, which need not exist, and removes it from the kubeconfig.
func (c Cluster) Delete(kubeconfig string) error { return c.provider.Delete(Name, kubeconfig) }
