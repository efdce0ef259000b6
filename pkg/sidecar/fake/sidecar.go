// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package fake implements package sidecar in memory, for tests. It keeps a store, and takes snapshots of an etcd whose
// revision the test sets.
//
// What may not live here: anything that production code imports.
package fake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// Store is the backup store of one cluster with all its sidecars. It is safe for concurrent use.
type Store struct {
	lock      sync.Mutex
	revision  int64
	latest    sidecar.LatestSnapshots
	requested int
	targets   []sidecar.Target
	failure   error
	hold      chan struct{}
	now       func() time.Time
}

var _ sidecar.Connector = (*Store)(nil)

// NewStore returns an empty store of an etcd at revision 1. now returns the creation time of snapshots.
func NewStore(now func() time.Time) *Store { return &Store{revision: 1, now: now} }

// SetRevision sets the current revision of etcd.
func (s *Store) SetRevision(revision int64) { s.change(func() { s.revision = revision }) }

// Fail makes every call fail with the error. Nil: calls succeed.
func (s *Store) Fail(err error) { s.change(func() { s.failure = err }) }

// Hold blocks snapshots until the test calls the returned function.
func (s *Store) Hold() (release func()) {
	hold := make(chan struct{})
	s.change(func() { s.hold = hold })

	return sync.OnceFunc(func() {
		s.change(func() { s.hold = nil })
		close(hold)
	})
}

// SnapshotRequests is the number of requested snapshots.
func (s *Store) SnapshotRequests() int {
	s.lock.Lock()
	defer s.lock.Unlock()

	return s.requested
}

// Targets returns the targets of all calls of Connect.
func (s *Store) Targets() []sidecar.Target {
	s.lock.Lock()
	defer s.lock.Unlock()

	return append([]sidecar.Target(nil), s.targets...)
}

// Connect implements sidecar.Connector.
func (s *Store) Connect(target sidecar.Target) (sidecar.Client, error) {
	s.change(func() { s.targets = append(s.targets, target) })

	return client{s}, nil
}

func (s *Store) change(change func()) {
	s.lock.Lock()
	defer s.lock.Unlock()
	change()
}

// wait counts a requested snapshot, and blocks while Hold is in effect.
func (s *Store) wait(ctx context.Context) error {
	s.lock.Lock()
	s.requested++
	hold := s.hold
	s.lock.Unlock()
	if hold == nil {
		return nil
	}
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", sidecar.ErrUnreachable, ctx.Err())
	}
}

type client struct{ *Store }

// FullSnapshot implements sidecar.Client.
func (c client) FullSnapshot(ctx context.Context) (sidecar.Snapshot, error) {
	if err := c.wait(ctx); err != nil {
		return sidecar.Snapshot{}, err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.failure != nil {
		return sidecar.Snapshot{}, c.failure
	}
	c.latest = sidecar.LatestSnapshots{Full: new(c.snapshot("Full", 0))}

	return *c.latest.Full, nil
}

// FinalSnapshot implements sidecar.Client.
func (c client) FinalSnapshot(ctx context.Context) (sidecar.Snapshot, error) {
	if _, err := c.FullSnapshot(ctx); err != nil {
		return sidecar.Snapshot{}, err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.latest.Full.Final = true

	return *c.latest.Full, nil
}

// DeltaSnapshot implements sidecar.Client.
func (c client) DeltaSnapshot(ctx context.Context) (*sidecar.Snapshot, error) {
	if err := c.wait(ctx); err != nil {
		return nil, err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.failure != nil || c.latest.LastRevision() == c.revision {
		return nil, c.failure
	}
	c.latest.LastDelta = new(c.snapshot("Incr", c.latest.LastRevision()+1))
	c.latest.DeltaCount++

	return new(*c.latest.LastDelta), nil
}

// LatestSnapshots implements sidecar.Client.
func (c client) LatestSnapshots(context.Context) (sidecar.LatestSnapshots, error) {
	c.lock.Lock()
	defer c.lock.Unlock()

	return c.latest, c.failure
}

func (s *Store) snapshot(kind string, start int64) sidecar.Snapshot {
	now := s.now()

	return sidecar.Snapshot{
		Name: fmt.Sprintf("%s-%08d-%08d-%d.gz", kind, start, s.revision, now.Unix()), Kind: kind,
		StartRevision: start, LastRevision: s.revision, CreatedAt: now,
	}
}
