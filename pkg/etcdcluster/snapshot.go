// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// SnapshotValidity is how long a snapshot is good enough to act upon, from the end of the call: members go on writing, but to
// take it may take longer than this, each time anew.
const snapshotValidity = 5 * time.Minute

// SnapshotCalls is how the calls to the sidecar stand that take the full snapshot, for the Etcd's current generation.
type SnapshotCalls struct {
	// Running is true while one is under way.
	Running bool
	// Verified is the snapshot that was taken and verified. Nil: none.
	Verified *state.VerifiedSnapshot
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
func (c SnapshotCalls) Ended(verified *state.VerifiedSnapshot, err error, at time.Time) SnapshotCalls {
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
