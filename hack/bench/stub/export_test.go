// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// SetPod adds, changes or removes a pod, as the informer does.
func (s *Stub) SetPod(pod *corev1.Pod) { s.registry.set(pod, time.Now()) }

// ServeEtcd serves the etcd of all members on a free port until the context ends, and returns the address.
func (s *Stub) ServeEtcd(ctx context.Context) (string, error) {
	listener, err := s.listen("127.0.0.1:0", func(m *member) string { return m.clientSecret })
	if err != nil {
		return "", err
	}
	go func() { _ = s.serve(ctx, listener, s.etcdHandler()) }()

	return listener.Addr().String(), nil
}

// ServeSidecars serves the sidecars of all members.
func (s *Stub) ServeSidecars(ctx context.Context) (string, error) {
	listener, err := s.listen("127.0.0.1:0", func(m *member) string { return m.backupSecret })
	if err != nil {
		return "", err
	}
	go func() { _ = s.serve(ctx, listener, s.sidecarHandler()) }()

	return listener.Addr().String(), nil
}

// RenewLeases renews Leases until the context ends.
func (s *Stub) RenewLeases(ctx context.Context) { s.renewLeases(ctx) }

// RenewLeasesAt renews the Leases of the members at each of the times.
func (s *Stub) RenewLeasesAt(ctx context.Context, times ...time.Time) {
	renewals, work := map[*member]*renewal{}, make(chan func(), 100)
	for _, now := range times {
		for _, m := range s.registry.all() {
			s.renewDue(ctx, now, m, renewals, work)
		}
	}
	close(work)
	for task := range work {
		task()
	}
}
