// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// snapshotValidity is how long a snapshot may be used, from the end of the call. Members continue to write, and a new snapshot may take
// longer than this.
const snapshotValidity = 5 * time.Minute

// SnapshotAttempts are the calls to the sidecar for a full snapshot, for the current generation of the Etcd.
type SnapshotAttempts struct {
	// Running is true while one is under way.
	Running bool
	// Verified is the snapshot that was taken and verified. Nil: none.
	Verified *state.VerifiedSnapshot
	// Failures counts the failed attempts since the last successful one.
	Failures int
	// Expired counts the verified snapshots that became too old before they were used. Verified is not included.
	Expired int
	// Error is what the last attempt failed with. Empty: it did not fail.
	Error string
	// StartedAt is when the last attempt began. Zero: none did.
	StartedAt time.Time
	// EndedAt is when the last attempt ended. Zero: none did.
	EndedAt time.Time
	// Unrecorded is true if the last attempt has ended, or was interrupted, and the record on the ManagedResource does not have that yet.
	Unrecorded bool
}

// SnapshotCall is the last call of this process for a full snapshot of the Etcd. The zero value: it made none.
type SnapshotCall struct {
	// Running is true while one is under way.
	Running bool
	// Generation of the Etcd that the last call was made for. 0: none has ended.
	Generation int64
	// Verified is the snapshot that the last call has taken and verified. Nil: it failed.
	Verified *state.VerifiedSnapshot
	// Err is why the last call failed. Nil: it did not.
	Err error
	// EndedAt is when the last call ended.
	EndedAt time.Time
}

// interrupted is the error of an attempt during which the operator was stopped. It says nothing about the sidecar and the store, and does not
// count as a failure: only a pause follows.
const interrupted = "the operator was stopped during the attempt"

// SnapshotAttemptsFor returns the attempts for a generation of the Etcd: those that are recorded, and the one that has ended or was interrupted
// since.
func SnapshotAttemptsFor(generation int64, recorded state.SnapshotAttempts, call SnapshotCall) SnapshotAttempts {
	attempts := SnapshotAttempts{}
	if recorded.Generation == generation {
		attempts = SnapshotAttempts{
			Verified: recorded.Verified, Failures: recorded.Failures, Expired: recorded.Expired, Error: recorded.Error, StartedAt: recorded.StartedAt, EndedAt: recorded.EndedAt,
		}
	}
	switch {
	case call.Generation == generation && call.EndedAt.After(attempts.EndedAt):
		attempts = attempts.Ended(call.Verified, call.Err, call.EndedAt)
		attempts.Unrecorded = true
	case recorded.Generation == generation && recorded.StartedAt.After(recorded.EndedAt) && !call.Running:
		attempts = attempts.Interrupted(recorded.StartedAt)
		attempts.Unrecorded = true
	}
	attempts.Running = call.Running

	return attempts
}

// Record returns what is recorded of the attempts for a generation, the last of which began at a time.
func (c SnapshotAttempts) Record(generation int64, startedAt time.Time) state.SnapshotAttempts {
	return state.SnapshotAttempts{
		Generation: generation, StartedAt: startedAt, EndedAt: c.EndedAt, Failures: c.Failures, Expired: c.Expired, Error: c.Error, Verified: c.Verified,
	}
}

// Ended returns the attempts after one more ended at a time, with a snapshot or else an error.
func (c SnapshotAttempts) Ended(verified *state.VerifiedSnapshot, err error, at time.Time) SnapshotAttempts {
	next := SnapshotAttempts{Verified: verified, Expired: c.Expired, StartedAt: c.StartedAt, EndedAt: at}
	if c.Verified != nil {
		next.Expired++ // another one would not have been taken
	}
	if err != nil {
		next.Failures, next.Error = c.Failures+1, err.Error()
	}

	return next
}

// Interrupted returns the attempts after the operator was stopped during one that had started at a time. An attempt starts only if an earlier
// snapshot cannot be used any more.
func (c SnapshotAttempts) Interrupted(startedAt time.Time) SnapshotAttempts {
	next := c.Ended(nil, nil, startedAt)
	next.Failures, next.Error = c.Failures, interrupted

	return next
}

// IsFresh is true while the verified snapshot is recent enough for a decision. EndedAt is then the end of the attempt that took it.
func (c SnapshotAttempts) IsFresh(now time.Time) bool {
	return c.Verified != nil && now.Sub(c.EndedAt) < snapshotValidity
}

// Unsuccessful counts the attempts without a usable snapshot. Verified counts too, since it is too old.
func (c SnapshotAttempts) Unsuccessful() int {
	if c.Verified != nil {
		return c.Failures + c.Expired + 1
	}

	return c.Failures + c.Expired
}
