// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

// SetPod adds, changes or removes a pod, as the informer does.
func (s *Stub) SetPod(pod *corev1.Pod) { s.set(pod, false) }

// Serve serves all members on a free port until the context ends, and returns the address.
func (s *Stub) Serve(ctx context.Context) string {
	address := make(chan net.Addr, 1)
	go func() { _ = s.serve(ctx, "127.0.0.1:0", func(a net.Addr) { address <- a }) }()

	return (<-address).String()
}

// RenewLeases renews Leases until the context ends.
func (s *Stub) RenewLeases(ctx context.Context) { s.renewLeases(ctx) }

// RenewLeasesAt renews the Leases of the members at each of the times.
func (s *Stub) RenewLeasesAt(ctx context.Context, times ...time.Time) error {
	work := &errgroup.Group{}
	for _, now := range times {
		s.renewDue(ctx, now, work)
		if err := work.Wait(); err != nil {
			return err
		}
	}

	return nil
}
