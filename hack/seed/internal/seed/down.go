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

// DownOthers takes down the clusters that run beside this one, and says which.
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

		s.Out.Println("the %s cluster is down as well", other.Name())
	}

	return nil
}

// Down stops everything and removes all that the cluster made on this machine, and restores the machine when it was the last one. Binaries
// and images stay in the cache. It does as much as it can: an error says what is left.
func (s *Seed) Down(ctx context.Context) error {
	errs := []error{
		s.addons.Stop(ctx),
		// All of them, since a folder may be gone while a namespace is still there.
		forEach(s.Layout.Nodes(layout.MaxNodes), func(n layout.Node) error { return s.nodes.Stop(ctx, n) }),
		s.control.Stop(ctx),
	}

	for _, name := range s.processes.Names() { // whatever an older version of this tool started
		errs = append(errs, s.processes.Stop(ctx, name, 5*time.Second))
	}

	errs = append(errs,
		network.RemoveBridge(ctx, s.Layout.Cluster),
		cgroup.Remove(s.Layout.Cgroup()),
		host.Unmount(s.Layout.Run),
		host.Restore(s.Layout.HostState(), s.hostStates()...),
	)

	if err := errors.Join(errs...); err != nil {
		return err
	}

	return s.removeRun()
}

// removeRun removes the folder, and never through a mount.
func (s *Seed) removeRun() error {
	mounts, err := host.Mounts(s.Layout.Run)
	if err != nil {
		return err
	}

	if len(mounts) > 0 {
		return fmt.Errorf("%s is still mounted, so %s is not removed; call down again", mounts[0], s.Layout.Run)
	}

	// The folder of the owner holds the lock of this very command; it goes last.
	return errors.Join(os.RemoveAll(s.Layout.Run), os.RemoveAll(filepath.Dir(s.Layout.Owner())))
}
