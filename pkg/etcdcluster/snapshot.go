// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"encoding/json"
	"fmt"
	"time"
)

// SnapshotValidity is how long a snapshot is good enough to act upon, from the end of the call: members go on writing, but to
// take it may take longer than this, each time anew.
const snapshotValidity = 5 * time.Minute

// SnapshotCalls is how the calls to the sidecar stand that take the full snapshot, for the Etcd's current generation.
type SnapshotCalls struct {
	// Running is true while one is under way.
	Running bool
	// Verified is the snapshot that was taken and verified. Nil: none.
	Verified *VerifiedSnapshot
	// Failures counts the attempts that failed, since the last one that did not.
	Failures int
	// Late counts the snapshots that were verified, and too old before anybody acted upon them. Verified is not among them.
	Late int
	// Error is what the last attempt failed with. Empty: it did not fail.
	Error string
	// EndedAt is when the last attempt ended. Zero: none did.
	EndedAt time.Time
}

// Ended returns how the calls stand after one more ended at a time, with a snapshot or else an error.
func (c SnapshotCalls) Ended(verified *VerifiedSnapshot, err error, at time.Time) SnapshotCalls {
	next := SnapshotCalls{Verified: verified, Late: c.Late, EndedAt: at}
	if c.Verified != nil {
		next.Late++ // another one would not have been taken
	}
	if err != nil {
		next.Failures, next.Error = c.Failures+1, err.Error()
	}

	return next
}

// IsFresh is true while the snapshot that was verified is good enough to act upon.
func (c SnapshotCalls) IsFresh(now time.Time) bool {
	return c.Verified != nil && now.Sub(c.EndedAt) < snapshotValidity
}

// Attempts counts the attempts that have led to nothing, where Verified is not good enough any more.
func (c SnapshotCalls) Attempts() int {
	if c.Verified != nil {
		return c.Failures + c.Late + 1
	}

	return c.Failures + c.Late
}

// VerifiedSnapshot is a full snapshot that was the newest in the store, and held every write that was acknowledged before it
// was asked for.
type VerifiedSnapshot struct {
	// Name of the object in the store.
	Name string `json:"name"`
	// Revision of etcd that it holds at least.
	Revision int64 `json:"revision"`
	// At is when it was asked for.
	At time.Time `json:"at"`
}

// String shows the snapshot to people.
func (s VerifiedSnapshot) String() string {
	return fmt.Sprintf("full snapshot %s with revision %d, asked for at %s", s.Name, s.Revision, s.At.UTC().Format(time.RFC3339))
}

// FinalSnapshot is what is remembered about the snapshot before members stopped, or data was discarded.
type FinalSnapshot struct {
	// Generation of the Etcd that it was for.
	Generation int64 `json:"generation"`
	// Snapshot that was verified. Nil: there is none, see Missing.
	Snapshot *VerifiedSnapshot `json:"snapshot,omitempty"`
	// Store is the place in which Snapshot lies, as Observation.ManagedResource.StorePlace names it. Empty: not known.
	Store string `json:"store,omitempty"`
	// Missing is why there is none.
	Missing SnapshotMissing `json:"missing,omitempty"`
	// Message says more about Missing. Empty: there is nothing to say.
	Message string `json:"message,omitempty"`
}

// ParseFinalSnapshot reads what Marshal wrote. Nil: nothing is remembered, or it cannot be read, so that a snapshot is taken
// where one is needed.
func ParseFinalSnapshot(text string) *FinalSnapshot {
	parsed := &FinalSnapshot{}
	if text == "" || json.Unmarshal([]byte(text), parsed) != nil {
		return nil
	}

	return parsed
}

// Marshal returns the form in which the ManagedResource remembers it: JSON.
func (f FinalSnapshot) Marshal() (string, error) {
	data, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("remembering the final snapshot: %w", err)
	}

	return string(data), nil
}

// SnapshotMissing is why there is no snapshot.
type SnapshotMissing string

// The reasons to go on without a snapshot.
const (
	// SnapshotSkipped means that an annotation said so.
	SnapshotSkipped SnapshotMissing = "Skipped"
	// SnapshotFailed means that every attempt failed.
	SnapshotFailed SnapshotMissing = "Failed"
	// SnapshotNoData means that there is nothing to be saved.
	SnapshotNoData SnapshotMissing = "NoData"
	// SnapshotTerminating means that the namespace is being deleted.
	SnapshotTerminating SnapshotMissing = "NamespaceTerminating"
)

// String shows to people what is remembered.
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
