// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"time"
)

// ErrUnreachable is in the chain of each error of a sidecar that sent no usable response before the context ended. The sidecar
// may still take the requested snapshot.
var ErrUnreachable = errors.New("sidecar does not answer")

// ErrRefused is in the chain of each error of a sidecar that responded, but not with what was requested. Either it has no
// store, it cannot reach the sidecar of the leader, or the store failed. The log of the sidecar states the cause.
var ErrRefused = errors.New("sidecar refuses")

// Client calls one sidecar. A call ends with the response or with its context: a snapshot can take minutes. Only the sidecar
// of the etcd leader takes snapshots. Other sidecars forward the request to it.
//
// Errors have ErrUnreachable or ErrRefused in their chain.
type Client interface {
	// FullSnapshot takes an on-demand full snapshot, never a final one. It returns when the snapshot is in the store.
	FullSnapshot(ctx context.Context) (Snapshot, error)
	// FinalSnapshot takes a full snapshot that is marked as the last one before a migration.
	FinalSnapshot(ctx context.Context) (Snapshot, error)
	// DeltaSnapshot takes an on-demand delta snapshot. Nil without an error: etcd has no new revision since the last snapshot.
	DeltaSnapshot(ctx context.Context) (*Snapshot, error)
	// LatestSnapshots lists the store and returns its newest snapshots.
	LatestSnapshots(ctx context.Context) (LatestSnapshots, error)
}

// Connector creates Clients.
type Connector interface {
	// Connect returns a Client for the sidecar of the target. It opens no connection yet. The error names the part of the
	// target that cannot be used.
	Connect(target Target) (Client, error)
}

// Target is the HTTP server of one sidecar.
type Target struct {
	// Address is host:port. The host is the IP address of the pod if the pod exists.
	Address string
	// ServerName is the name that the certificate of the sidecar must contain. Empty: the host of Address.
	ServerName string
	// CA are the PEM certificates of the CAs that may have signed the certificate of the sidecar. Nil: plaintext. Sidecars do
	// not request client certificates.
	CA []byte
}

// Snapshot is a snapshot in the store.
type Snapshot struct {
	// Name is the name of the object in the store, relative to the prefix of the store.
	Name string
	// Kind is Full or Incr.
	Kind string
	// StartRevision and LastRevision are the first and the last etcd revision in the snapshot. A full snapshot may contain
	// more.
	StartRevision, LastRevision int64
	// CreatedAt is the time at which the sidecar took the snapshot.
	CreatedAt time.Time
	// Final is true for the last snapshot before a migration.
	Final bool
}

// LatestSnapshots are the newest full snapshot in the store and the delta snapshots after it.
type LatestSnapshots struct {
	// Full is the newest full snapshot. Nil: the store contains no full snapshot.
	Full *Snapshot
	// LastDelta is the newest delta snapshot after it. Nil: there is none.
	LastDelta *Snapshot
	// DeltaCount is the number of delta snapshots after it.
	DeltaCount int
}

// FullSince returns the newest full snapshot if it contains all revisions up to the given one. If final is true, it must also
// be a final snapshot. Nil: there is none.
func (l LatestSnapshots) FullSince(revision int64, final bool) *Snapshot {
	if l.Full == nil || l.Full.LastRevision < revision || final && !l.Full.Final {
		return nil
	}

	return l.Full
}

// Since returns the newest snapshot if the store contains all revisions up to the given one. Nil: it does not.
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

// LastRevision is the newest etcd revision in the store. 0: the store contains no snapshot.
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
