// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/cgroup"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/host"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/network"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/pki"
)

const startTimeout = 4 * time.Minute

// Build builds the programs and creates the images that the cluster needs to start, and the operator if the option is set.
func (s *Seed) Build(ctx context.Context, operator bool) ([]string, error) {
	if err := build.EnsurePackages(ctx, s.Out); err != nil {
		return nil, err
	}

	names := build.Initial()

	switch s.Layout.Cluster {
	case layout.Bare:
		names = append(names, build.NetworkPolicies)
	case layout.Shoots:
		names = append(names, build.Landscape()...)
	default:
	}

	if err := s.Builder.Ensure(ctx, operator, names...); err != nil {
		return nil, err
	}

	s.built = operator

	specs, err := image.Catalogue(s.Builder)
	if err != nil {
		return nil, err
	}

	archives, err := image.EnsureAll(specs, s.Layout.Images())
	if err != nil || s.Layout.Cluster != layout.Shoots {
		return archives, err
	}

	landscape, err := s.landscapeArchives()

	return append(archives, landscape...), err
}

// Options are the options of Up.
type Options struct {
	// Nodes is the number of nodes, from 1 to layout.MaxNodes.
	Nodes int
	// Operator also builds the operator, which Deploy and PrepareOperator then do not build again.
	Operator bool
	// VolumesInMemory keeps the volumes on a tmpfs, so that a slow disk does not delay the fsync calls of etcd. The volumes do not
	// survive a reboot. False keeps them on disk. It has no effect on a cluster that has volumes on disk already.
	VolumesInMemory bool
}

// Up starts what does not run yet. It may be called at any time, also after a crash or a reboot.
func (s *Seed) Up(ctx context.Context, options Options) error {
	count := options.Nodes
	if count < 1 || count > layout.MaxNodes {
		return fmt.Errorf("a seed has 1 to %d nodes, not %d", layout.MaxNodes, count)
	}

	if err := s.Layout.Check(); err != nil {
		return err
	}

	archives, err := s.Build(ctx, options.Operator)
	if err != nil {
		return err
	}

	if err := s.prepare(ctx); err != nil {
		return err
	}

	if options.VolumesInMemory {
		switch err := host.MountMemory(s.Layout.Volumes()); {
		case errors.Is(err, host.ErrNotEmpty):
			s.Out.Println("the volumes stay on disk, because volumes exist; `down` removes them")
		case err != nil:
			return err
		}
	}

	s.Out.Println("starting etcd, the API server and %d nodes", count)

	if err := s.control.EnsureAPIServer(ctx); err != nil {
		return err
	}

	nodes := s.Layout.Nodes(count)
	runtimes := make(chan error, 1)
	// Network and containerd need no API server, so that they start concurrently with it.
	go func() {
		runtimes <- forEach(nodes, func(n layout.Node) error {
			if err := s.nodes.EnsureRuntime(ctx, n); err != nil {
				return err
			}

			return s.nodes.EnsureImages(ctx, n, archives)
		})
	}()

	controlErr := s.startControllers(ctx)
	if err := errors.Join(<-runtimes, controlErr); err != nil {
		return err
	}

	if err := forEach(nodes, func(n layout.Node) error { return s.nodes.EnsureKubelet(ctx, n) }); err != nil {
		return err
	}

	return s.startAddons(ctx, nodes)
}

// prepare creates what every process needs: the directory, the certificates and the bridge.
func (s *Seed) prepare(ctx context.Context) error {
	if err := host.Save(s.Layout.HostState(), s.hostStates()...); err != nil {
		return fmt.Errorf("saving the state of this machine: %w", err)
	}

	if err := os.WriteFile(s.Layout.Owner(), []byte(s.Layout.Run+"\n"), 0o644); err != nil {
		return err
	}

	ips := map[string]string{}
	for _, n := range s.Layout.Nodes(layout.MaxNodes) {
		ips[n.Name()] = n.IP()
	}

	if err := pki.Ensure(s.Layout.PKI(), pki.Options{
		Server:    fmt.Sprintf("https://%s:%d", s.Layout.HostIP(), s.Layout.APIPort()),
		ServerIPs: []string{s.Layout.HostIP(), s.Layout.ServiceIP()},
		NodeIPs:   ips,
	}); err != nil {
		return err
	}

	if err := os.MkdirAll(s.Layout.Logs(), 0o755); err != nil {
		return err
	}

	for _, name := range []string{s.Layout.Cgroup(), s.Layout.SystemCgroup()} {
		if err := cgroup.Share(name, 1); err != nil {
			return err
		}
	}

	return network.EnsureBridge(ctx, s.Layout.Cluster)
}

// WeighPrograms sets the weight of the programs of a running cluster: the API server, the kubelets, the container runtimes and what they execute.
// The fraction is relative to the weight of all pods, and greater than 0. Up sets it to 1. Without a started cluster, an error is returned.
func (s *Seed) WeighPrograms(fraction float64) error {
	if _, err := s.api(); err != nil {
		return err
	}

	return cgroup.Share(s.Layout.SystemCgroup(), fraction)
}

func (s *Seed) startControllers(ctx context.Context) error {
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}

	var err error

	s.addons.Gardener, err = s.Builder.GardenerDir(ctx)
	if err != nil {
		return err
	}

	return s.addons.EnsureManifests(ctx)
}

// startControlPlane waits for the started API server and starts the processes that need it.
func (s *Seed) startControlPlane(ctx context.Context) error {
	client, err := s.api()
	if err != nil {
		return err
	}

	if err := s.Out.Wait(ctx, "the API server", startTimeout, func(ctx context.Context) (string, error) {
		if err := s.control.CheckAPIServer(); err != nil {
			return "", err
		}

		if client.get(ctx, "/readyz", nil) != nil {
			return "not ready yet", nil
		}

		return "", nil
	}); err != nil {
		return err
	}

	return s.control.EnsureControllers(ctx)
}

func (s *Seed) startAddons(ctx context.Context, nodes []layout.Node) error {
	if err := s.addons.EnsureProcesses(ctx); err != nil {
		return err
	}

	if err := s.waitForNodes(ctx, nodes); err != nil {
		return err
	}

	if err := s.enforceNetworkPolicies(ctx, nodes); err != nil {
		return err
	}

	if err := s.Out.Wait(ctx, "gardener-resource-manager", startTimeout, s.addons.Missing); err != nil {
		return err
	}

	return s.Out.Wait(ctx, "CoreDNS", startTimeout, s.missingDNS)
}

// enforceNetworkPolicies enforces the NetworkPolicies of the pods on the nodes, if the cluster has any.
func (s *Seed) enforceNetworkPolicies(ctx context.Context, nodes []layout.Node) error {
	if !s.Layout.HasNetworkPolicies() {
		return nil
	}

	return forEach(nodes, func(n layout.Node) error { return s.nodes.EnsureNetworkPolicies(ctx, n) })
}

// waitForNodes waits until the nodes are ready, and restarts processes that end meanwhile, as an init system does. All
// kubelets of the machine create the same socket in /var/lib/kubelet, and a kubelet exits if another one creates it at
// the same time.
func (s *Seed) waitForNodes(ctx context.Context, nodes []layout.Node) error {
	attempts := 3 * len(nodes)

	return s.Out.Wait(ctx, "the nodes", startTimeout, func(ctx context.Context) (string, error) {
		if err := s.control.CheckAlive(); err != nil {
			return "", err
		}

		for _, n := range nodes {
			ended := s.nodes.CheckAlive(n)
			if ended == nil {
				continue
			}

			if attempts--; attempts < 0 {
				return "", ended
			}

			if err := s.nodes.EnsureKubelet(ctx, n); err != nil {
				return "", err
			}
		}

		return s.missingNodes(ctx, nodes)
	})
}

// missingNodes returns the names of the nodes that are not ready.
func (s *Seed) missingNodes(ctx context.Context, nodes []layout.Node) (string, error) {
	client, err := s.api()
	if err != nil {
		return "", err
	}

	var found list
	if err := client.get(ctx, "/api/v1/nodes", &found); err != nil {
		return err.Error(), nil
	}

	ready := map[string]bool{}

	for _, item := range found.Items {
		condition := item.ready()
		// A status from before a crash or a reboot is outdated.
		fresh := !condition.LastHeartbeatTime.Before(s.nodes.Started(item.Metadata.Name))
		ready[item.Metadata.Name] = condition.Status == "True" && fresh
	}

	var missing []string

	for _, n := range nodes {
		if !ready[n.Name()] {
			missing = append(missing, n.Name()+" not Ready")
		}
	}

	return strings.Join(missing, ", "), nil
}

// missingDNS resolves a name through the Service of CoreDNS, which also shows that Services are reachable.
func (s *Seed) missingDNS(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(s.Layout.DNSIP(), "53"))
	}}

	if _, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local."); err != nil {
		return "no response yet", nil
	}

	return "", nil
}

// forEach calls work for all nodes concurrently and joins the errors.
func forEach(nodes []layout.Node, work func(layout.Node) error) error {
	var (
		group sync.WaitGroup
		errs  = make([]error, len(nodes))
	)

	for i, n := range nodes {
		group.Go(func() { errs[i] = work(n) })
	}

	group.Wait()

	return errors.Join(errs...)
}
