// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package fake is a sidecar in memory behind the door of package sidecar, for tests: it keeps a store and takes snapshots of
// an etcd whose revision the test says.
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

// Store is the store of one cluster, and all sidecars that lead to it. It is safe for concurrent use.
type Store struct {
	lock     sync.Mutex
	revision int64
	latest   sidecar.LatestSnapshots
	taken    int
	asked    []sidecar.Target
	failure  error
	held     chan struct{}
	now      func() time.Time
}

var _ sidecar.Connector = (*Store)(nil)

// NewStore returns an empty store of an etcd at revision 1. now tells the time of snapshots.
func NewStore(now func() time.Time) *Store { return &Store{revision: 1, now: now} }

// SetRevision says how far etcd is.
func (s *Store) SetRevision(revision int64) { s.change(func() { s.revision = revision }) }

// Fail makes every call fail with the error. Nil: none.
func (s *Store) Fail(err error) { s.change(func() { s.failure = err }) }

// Hold keeps snapshots from being stored until the returned function is called.
func (s *Store) Hold() (release func()) {
	held := make(chan struct{})
	s.change(func() { s.held = held })

	return sync.OnceFunc(func() {
		s.change(func() { s.held = nil })
		close(held)
	})
}

// Taken is how many snapshots were asked for.
func (s *Store) Taken() int {
	s.lock.Lock()
	defer s.lock.Unlock()

	return s.taken
}

// Targets are those that were connected to.
func (s *Store) Targets() []sidecar.Target {
	s.lock.Lock()
	defer s.lock.Unlock()

	return append([]sidecar.Target(nil), s.asked...)
}

// Connect implements sidecar.Connector.
func (s *Store) Connect(target sidecar.Target) (sidecar.Client, error) {
	s.change(func() { s.asked = append(s.asked, target) })

	return client{s}, nil
}

func (s *Store) change(change func()) {
	s.lock.Lock()
	defer s.lock.Unlock()
	change()
}

// wait counts a snapshot that was asked for, and waits while snapshots are held.
func (s *Store) wait(ctx context.Context) error {
	s.lock.Lock()
	s.taken++
	held := s.held
	s.lock.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
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
