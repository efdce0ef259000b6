// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/cgroup"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/host"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/network"
)

// DownOthers takes down the other clusters that run on this machine, and prints their names.
func (s *Seed) DownOthers(ctx context.Context) error {
	for _, other := range s.otherLayouts() {
		if _, err := os.Stat(other.Run); errors.Is(err, fs.ErrNotExist) {
			continue
		}

		otherSeed, err := newSeed(other, s.Out)
		if err != nil {
			return err
		}

		unlock, err := otherSeed.Lock(ctx)
		if err != nil {
			return err
		}

		err = otherSeed.Down(ctx)
		unlock()

		if err != nil {
			return fmt.Errorf("taking the %s cluster down: %w", other.Name(), err)
		}

		s.Out.Println("the %s cluster is down too", other.Name())
	}

	return nil
}

// Down stops all processes and removes everything that the cluster created on this machine. It restores the machine
// after the last cluster. Binaries and images stay in the cache. It continues after an error; the returned error says
// what was not removed.
func (s *Seed) Down(ctx context.Context) error {
	errs := []error{
		s.addons.Stop(ctx),
		// All possible nodes, since a network namespace may exist without the node's directory.
		forEach(s.Layout.Nodes(layout.MaxNodes), func(n layout.Node) error { return s.nodes.Stop(ctx, n) }),
		s.control.Stop(ctx),
	}

	for _, name := range s.processes.Names() { // also the processes of an older version of this tool
		errs = append(errs, s.processes.Stop(ctx, name, 5*time.Second))
	}

	errs = append(errs,
		network.RemoveBridge(ctx, s.Layout.Cluster),
		cgroup.Remove(s.Layout.Cgroup()),
		cgroup.Remove(s.Layout.SystemCgroup()),
		host.Unmount(s.Layout.Run),
		host.Restore(s.Layout.HostState(), s.hostStates()...),
	)

	if err := errors.Join(errs...); err != nil {
		return err
	}

	return s.removeRun()
}

// removeRun removes the directory of the cluster, but not the contents of mounts below it.
func (s *Seed) removeRun() error {
	mounts, err := host.Mounts(s.Layout.Run)
	if err != nil {
		return err
	}

	if len(mounts) > 0 {
		return fmt.Errorf("%s is still mounted, so that %s was not removed; run down again", mounts[0], s.Layout.Run)
	}

	// The directory of the owner file contains the lock of this command, so that it is removed last.
	return errors.Join(os.RemoveAll(s.Layout.Run), os.RemoveAll(filepath.Dir(s.Layout.Owner())))
}
