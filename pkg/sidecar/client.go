// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"time"
)

// ErrUnreachable is in the chain of each error of a sidecar that did not answer before the context ended, or not at all. The
// snapshot that it was asked for may be taken all the same.
var ErrUnreachable = errors.New("sidecar does not answer")

// ErrRefused is in the chain of each error of a sidecar that answered, but not with what it was asked for: it has no store,
// it does not reach the sidecar beside the leader, or the store failed. Its own log says which.
var ErrRefused = errors.New("sidecar refuses")

// Client asks one sidecar. Each call lasts until there is an answer or its context ends: snapshots take minutes. The sidecar
// beside the leader of etcd is the one that takes snapshots; others pass the question on to it.
//
// Errors have ErrUnreachable or ErrRefused in their chain.
type Client interface {
	// FullSnapshot takes a full snapshot out of turn, never a final one, and returns it when it is stored.
	FullSnapshot(ctx context.Context) (Snapshot, error)
	// FinalSnapshot takes a full snapshot that is marked as the last one before a migration.
	FinalSnapshot(ctx context.Context) (Snapshot, error)
	// DeltaSnapshot takes a delta snapshot out of turn. Nil without an error: nothing was written since the last snapshot.
	DeltaSnapshot(ctx context.Context) (*Snapshot, error)
	// LatestSnapshots returns what the store holds at the end, as read from the store now.
	LatestSnapshots(ctx context.Context) (LatestSnapshots, error)
}

// Connector makes Clients.
type Connector interface {
	// Connect returns a Client for the sidecar behind the target, without talking to it yet. The error says which part of the
	// target cannot be used.
	Connect(target Target) (Client, error)
}

// Target is the HTTP server of one sidecar.
type Target struct {
	// Address is host:port, the pod's IP where there is a pod.
	Address string
	// ServerName is the name that the sidecar's certificate has to carry. Empty: the host of Address.
	ServerName string
	// CA are the PEM certificates that the sidecar's certificate may be signed by. Nil: plaintext. Sidecars ask nobody for a
	// certificate.
	CA []byte
}

// Snapshot is a snapshot in the store.
type Snapshot struct {
	// Name of the object in the store, below the prefix of the store.
	Name string
	// Kind is Full or Incr.
	Kind string
	// StartRevision and LastRevision are the first and last revision of etcd that it holds. A full one may hold more.
	StartRevision, LastRevision int64
	// CreatedAt is when it was taken.
	CreatedAt time.Time
	// Final is true when it was taken as the last one before a migration.
	Final bool
}

// LatestSnapshots are what the store holds from the newest full snapshot on.
type LatestSnapshots struct {
	// Full is the newest full snapshot. Nil: the store holds none.
	Full *Snapshot
	// LastDelta is the newest delta snapshot after it. Nil: there is none.
	LastDelta *Snapshot
	// DeltaCount is the number of delta snapshots after it.
	DeltaCount int
}

// FullSince is the newest full snapshot, if it holds everything up to the revision, and is a final one where that is asked for.
// Nil: there is none.
func (l LatestSnapshots) FullSince(revision int64, final bool) *Snapshot {
	if l.Full == nil || l.Full.LastRevision < revision || final && !l.Full.Final {
		return nil
	}

	return l.Full
}

// Since is the newest snapshot, if everything up to the revision is in the store. Nil: it is not.
func (l LatestSnapshots) Since(revision int64) *Snapshot {
	switch {
	case l.LastRevision() < revision:
		return nil
	case l.LastDelta != nil:
		return l.LastDelta
	default:
		return l.Full
	}
}

// LastRevision is the newest revision of etcd in the store. 0: it holds no snapshot.
func (l LatestSnapshots) LastRevision() int64 {
	switch {
	case l.LastDelta != nil:
		return l.LastDelta.LastRevision
	case l.Full != nil:
		return l.Full.LastRevision
	default:
		return 0
	}
}
