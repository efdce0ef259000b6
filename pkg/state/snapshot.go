// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"time"
)

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
