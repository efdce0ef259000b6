// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package node runs one node of the seed: containerd, kubelet and kube-proxy in a network namespace. It does not connect to the API
// server.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/cgroup"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/host"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/network"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

// Manager starts and stops nodes.
type Manager struct {
	Layout    layout.Layout
	Processes process.Table
	// Kubelet, Proxy and NetworkPolicies are the paths of the programs.
	Kubelet, Proxy, NetworkPolicies string
}

// Names of a node's processes, in the order in which they start.
func containerd(n layout.Node) string      { return "containerd-" + n.Name() }
func kubelet(n layout.Node) string         { return "kubelet-" + n.Name() }
func proxy(n layout.Node) string           { return "kube-proxy-" + n.Name() }
func networkPolicies(n layout.Node) string { return "networkpolicies-" + n.Name() }

// EnsureRuntime starts the node's network and containerd, which need no API server. It removes the remains of a crashed
// node first.
func (m Manager) EnsureRuntime(ctx context.Context, n layout.Node) error {
	if _, alive := m.Processes.Find(containerd(n)); !alive || !network.IsWhole(n) {
		if err := m.Stop(ctx, n); err != nil {
			return fmt.Errorf("removing the remains of node %s: %w", n.Name(), err)
		}
	}

	if err := network.EnsureNode(ctx, n); err != nil {
		return err
	}

	if err := cgroup.Ensure(n.Cgroup()); err != nil {
		return err
	}

	if err := writeFiles(m.Layout, n); err != nil {
		return fmt.Errorf("configuring node %s: %w", n.Name(), err)
	}

	config := filepath.Join(m.Layout.NodeDir(n), "containerd.toml")

	if err := m.Processes.Ensure(ctx, process.Spec{
		Name:   containerd(n),
		Args:   inside(n, "/usr/bin/containerd", "-c", config),
		Inputs: []string{config},
	}); err != nil {
		return err
	}

	return m.waitForRuntime(ctx, n)
}

func (m Manager) waitForRuntime(ctx context.Context, n layout.Node) error {
	var err error

	for range 100 {
		if err = process.Run(ctx, "ctr", "-a", m.Layout.Socket(n), "version"); err == nil {
			return nil
		}

		if _, alive := m.Processes.Find(containerd(n)); !alive {
			break
		}

		time.Sleep(200 * time.Millisecond)
	}

	return fmt.Errorf("containerd of node %s does not respond: %w\n%s", n.Name(), err, m.Processes.Tail(containerd(n), 5))
}

// EnsureKubelet starts kubelet and kube-proxy.
func (m Manager) EnsureKubelet(ctx context.Context, n layout.Node) error {
	dir, pki := m.Layout.NodeDir(n), m.Layout.PKI()
	kubeletConfig, proxyConfig := filepath.Join(dir, "kubelet.yaml"), filepath.Join(dir, "kube-proxy.yaml")

	if err := m.Processes.Ensure(ctx, process.Spec{
		Name: kubelet(n),
		Args: inside(n, m.Kubelet,
			"--kubeconfig="+filepath.Join(pki, "kubelet-"+n.Name()+".kubeconfig"),
			"--config="+kubeletConfig,
			"--hostname-override="+n.Name(),
			// The default of ten seconds takes a quarter of the kubelet's CPU time. Nothing on the seed needs the figures of a container earlier.
			"--housekeeping-interval=1m",
			"--node-ip="+n.IP(),
			"--root-dir="+filepath.Join(dir, "kubelet"),
			"--cert-dir="+filepath.Join(dir, "kubelet-certs"),
			"--node-labels=topology.kubernetes.io/region=seed,topology.kubernetes.io/zone=zone-"+n.Name(),
		),
		Inputs: []string{kubeletConfig},
	}); err != nil {
		return err
	}

	return m.Processes.Ensure(ctx, process.Spec{Name: proxy(n), Args: inside(n, m.Proxy, "--config="+proxyConfig), Inputs: []string{proxyConfig}})
}

// EnsureNetworkPolicies starts the program that enforces NetworkPolicies. The API server must already have the node.
func (m Manager) EnsureNetworkPolicies(ctx context.Context, n layout.Node) error {
	return m.Processes.Ensure(ctx, process.Spec{Name: networkPolicies(n), Args: inside(n, m.NetworkPolicies,
		"-kubeconfig="+m.Layout.Kubeconfig(), "-node="+n.Name(), "-services="+m.Layout.ServiceCIDR(),
	)})
}

// CheckAlive returns an error with the end of the log if a process of the node does not run.
func (m Manager) CheckAlive(n layout.Node) error {
	return m.Processes.CheckAlive(containerd(n), kubelet(n), proxy(n))
}

// Stop ends the node as a power cut does, and removes its processes, mounts, network and cgroups. Images and volumes
// stay. It returns no error for a node that does not run.
func (m Manager) Stop(ctx context.Context, n layout.Node) error {
	// The kubelet ends first, since it would restart the containers.
	errs := []error{
		m.Processes.Stop(ctx, networkPolicies(n), 5*time.Second),
		m.Processes.Stop(ctx, proxy(n), 5*time.Second),
		m.Processes.Stop(ctx, kubelet(n), 5*time.Second),
	}

	sockets := shimSockets(m.Layout.NodeDir(n))

	errs = append(errs,
		cgroup.Kill(n.Cgroup()),
		killShims(m.Layout.Socket(n)),
		m.Processes.Stop(ctx, containerd(n), 10*time.Second),
	)

	for _, socket := range sockets {
		_ = os.Remove(socket)
	}

	errs = append(errs,
		host.Unmount(m.Layout.NodeDir(n)),
		network.RemoveNode(ctx, n),
		cgroup.Remove(n.Cgroup()),
		// The state of deleted containers, and the addresses of their pods.
		os.RemoveAll(filepath.Join(m.Layout.NodeDir(n), "containerd-state")),
		os.RemoveAll(filepath.Join(m.Layout.NodeDir(n), "addresses")),
	)

	return errors.Join(errs...)
}

// Started returns the start time of the named node's kubelet, with a resolution of one second. It returns the zero time
// for a node that was never started.
func (m Manager) Started(name string) time.Time {
	record, _ := m.Processes.Find("kubelet-" + name)
	return record.Started.Truncate(time.Second)
}
