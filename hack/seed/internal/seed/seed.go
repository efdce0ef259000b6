// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package seed starts and stops a whole cluster in the right order, and reports its status.
package seed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/addon"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/controlplane"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/node"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
)

// Seed is a cluster on this machine: the seed or the bare cluster, running or not.
type Seed struct {
	Layout  layout.Layout
	Out     *progress.Printer
	Builder build.Builder

	// built is true after Build has built the operator.
	built bool

	processes process.Table
	nodes     node.Manager
	control   controlplane.Manager
	addons    addon.Manager
}

// New returns the cluster of the checkout that contains the working directory.
func New(cluster layout.Cluster, out *progress.Printer) (*Seed, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}

	l, err := layout.Find(dir, cluster)
	if err != nil {
		return nil, err
	}

	if err := setEnvironment(cluster); err != nil {
		return nil, err
	}

	return newSeed(l, out)
}

func newSeed(l layout.Layout, out *progress.Printer) (*Seed, error) {
	s := &Seed{Layout: l, Out: out, Builder: build.Builder{Layout: l, Out: out}}
	s.processes = process.Table{Pids: l.Pids(), Logs: l.Logs(), Cgroup: l.SystemCgroup()}

	return s, s.wire()
}

// otherLayouts returns the layouts of the other clusters that may run on this machine.
func (s *Seed) otherLayouts() []layout.Layout {
	var layouts []layout.Layout
	for _, cluster := range s.Layout.Others() {
		layouts = append(layouts, s.Layout.Of(cluster))
	}

	return layouts
}

// hostStates returns the paths of the files in which the other clusters save the state of the machine.
func (s *Seed) hostStates() []string {
	var files []string
	for _, other := range s.otherLayouts() {
		files = append(files, other.HostState())
	}

	return files
}

// wire sets the paths of the programs, which need not exist yet.
func (s *Seed) wire() error {
	paths := map[string]string{}

	for _, module := range build.Catalogue() {
		for name := range module.Programs {
			path, err := s.Builder.Program(module.Name, name)
			if err != nil {
				return err
			}

			paths[name] = path
		}
	}

	s.nodes = node.Manager{Layout: s.Layout, Processes: s.processes, Kubelet: paths["kubelet"], Proxy: paths["kube-proxy"], NetworkPolicies: paths["networkpolicies"]}
	s.control = controlplane.Manager{Layout: s.Layout, Processes: s.processes, Programs: paths}
	s.addons = addon.Manager{
		Layout: s.Layout, Processes: s.processes,
		Kubectl: paths["kubectl"], Provisioner: paths["provisioner"], ResourceManager: paths["gardener-resource-manager"], Kwok: paths["kwok"],
	}

	return nil
}

// CheckMachine returns an error if this machine cannot run a seed.
func CheckMachine() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("the seed needs Linux, this is %s; use a virtual machine", runtime.GOOS)
	}

	if os.Geteuid() != 0 {
		return errors.New("the seed needs root, for network namespaces and mounts; run it with sudo")
	}

	return nil
}

// kubectl runs kubectl as the administrator.
func (s *Seed) kubectl(ctx context.Context, args ...string) error {
	return process.Run(ctx, append([]string{s.addons.Kubectl, "--kubeconfig=" + s.Layout.Kubeconfig()}, args...)...)
}

// existingNodes returns the nodes that have a directory.
func (s *Seed) existingNodes() []layout.Node {
	var nodes []layout.Node

	for _, n := range s.Layout.Nodes(layout.MaxNodes) {
		if _, err := os.Stat(s.Layout.NodeDir(n)); err == nil {
			nodes = append(nodes, n)
		}
	}

	return nodes
}
