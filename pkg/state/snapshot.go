// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"time"
)

// VerifiedSnapshot is a full snapshot that was the newest in the store, and held every write that was acknowledged before it
// was requested.
type VerifiedSnapshot struct {
	// Name of the object in the store.
	Name string `json:"name"`
	// Revision of etcd that it holds at least.
	Revision int64 `json:"revision"`
	// At is when it was requested.
	At time.Time `json:"at"`
	// LastRevision is the revision of the last write. etcd has rejected all writes since, and the store has every write up to it. 0: clients
	// could write after the snapshot.
	LastRevision int64 `json:"lastRevision,omitempty"`
	// Store is the location to which the sidecar wrote it, as Store.String names it. Empty: not known.
	Store string `json:"store,omitempty"`
	// PodCreationTime is when the pod was created whose sidecar took it. It shows whether the sidecar used a changed endpoint or account of the
	// store.
	PodCreationTime time.Time `json:"podCreationTime,omitzero"`
}

// String returns the snapshot for messages.
func (s VerifiedSnapshot) String() string {
	return fmt.Sprintf("full snapshot %s with revision %d, requested at %s", s.Name, s.Revision, s.At.UTC().Format(time.RFC3339))
}

// FinalSnapshot is the record about the snapshot before members stopped, or data was discarded.
type FinalSnapshot struct {
	// Generation of the Etcd that it was for.
	Generation int64 `json:"generation"`
	// Snapshot that was verified. Nil: there is none, see Missing.
	Snapshot *VerifiedSnapshot `json:"snapshot,omitempty"`
	// Store is the location of Snapshot, as Store.String names it. Empty: not known.
	Store string `json:"store,omitempty"`
	// Missing is why there is none.
	Missing SnapshotMissing `json:"missing,omitempty"`
	// Message says more about Missing. Empty: there is nothing to say.
	Message string `json:"message,omitempty"`
}

// SnapshotMissing is why there is no snapshot.
type SnapshotMissing string

// The reasons to continue without a snapshot.
const (
	// SnapshotSkipped means that an annotation said so.
	SnapshotSkipped SnapshotMissing = "Skipped"
	// SnapshotFailed means that every attempt failed.
	SnapshotFailed SnapshotMissing = "Failed"
	// SnapshotRolledBack means that the cluster has lost acknowledged writes, so that no snapshot contains all of them.
	SnapshotRolledBack SnapshotMissing = "RolledBack"
	// SnapshotNoData means that there is nothing to be saved.
	SnapshotNoData SnapshotMissing = "NoData"
	// SnapshotTerminating means that the namespace is being deleted.
	SnapshotTerminating SnapshotMissing = "NamespaceTerminating"
)

// String returns the record for messages.
func (f FinalSnapshot) String() string {
	switch {
	case f.Snapshot != nil:
		return f.Snapshot.String()
	case f.Message != "":
		return "no full snapshot: " + f.Message
	default:
		return "no full snapshot"
	}
}

// SnapshotAttempts are the attempts to take a full snapshot before members stop or a volume is deleted. The zero value: there was none.
type SnapshotAttempts struct {
	// Generation of the Etcd that they are for. Another generation begins with no attempt.
	Generation int64 `json:"generation,omitempty"`
	// StartedAt is when the last attempt began. It is recorded before the attempt begins. If it is after EndedAt and no call runs, the
	// operator was stopped during the attempt. The next one then follows after a pause.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when the last attempt ended. Zero: none did.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// Failures counts the attempts that failed since the last one that did not.
	Failures int `json:"failures,omitempty"`
	// Expired counts the snapshots that were verified and became too old before they were used. Verified is not among them.
	Expired int `json:"expired,omitempty"`
	// Error is why the last attempt failed. Empty: it did not fail.
	Error string `json:"error,omitempty"`
	// Verified is the snapshot of the last attempt. Nil: none.
	Verified *VerifiedSnapshot `json:"verified,omitempty"`
}
