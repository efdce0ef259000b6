// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/network"
)

// UpBench starts the bench cluster. Its only network namespace has the addresses of all pods: a process in it responds for each member.
func (s *Seed) UpBench(ctx context.Context) error {
	if err := build.EnsurePackages(ctx, s.Out); err != nil {
		return err
	}

	if err := s.Builder.Ensure(ctx, false, build.Bench()...); err != nil {
		return err
	}

	if err := s.prepare(ctx); err != nil {
		return err
	}

	s.Out.Println("starting etcd, the API server, gardener-resource-manager and KWOK")

	if err := s.control.EnsureAPIServer(ctx); err != nil {
		return err
	}

	if err := network.EnsurePodAddresses(ctx, s.Layout.Node(1)); err != nil {
		return err
	}

	if err := s.startControllers(ctx); err != nil {
		return err
	}

	if err := s.addons.EnsureProcesses(ctx); err != nil {
		return err
	}

	stages, err := s.Builder.KwokDir(ctx)
	if err != nil {
		return err
	}

	if err := s.addons.EnsureKwok(ctx, stages); err != nil {
		return err
	}

	return s.Out.Wait(ctx, "gardener-resource-manager", startTimeout, s.addons.Missing)
}
