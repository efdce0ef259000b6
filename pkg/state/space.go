// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// Space is how the operator frees space in the databases of a cluster after etcd has raised the alarm NOSPACE.
type Space struct {
	// Since is when the operator observed the alarm first.
	Since time.Time `json:"since"`
	// Call identifies the last call whose result is recorded, and At is when it ended. Empty: none has ended.
	Call string    `json:"call,omitempty"`
	At   time.Time `json:"at,omitzero"`
	// Stored is the revision up to which the history may be removed without a gap in the backup store. 0: it is not known yet.
	Stored int64 `json:"stored,omitempty"`
	// Compacted is the revision up to which the history was removed, and CompactedAt when. 0: it was not.
	Compacted   int64     `json:"compacted,omitempty"`
	CompactedAt time.Time `json:"compactedAt,omitzero"`
	// Measured is the revision at which a member was defragmented last: its file has no free space then. 0: none was.
	Measured int64 `json:"measured,omitempty"`
	// Failures counts the calls that failed since the last one that did not, and Error is why the last one failed. Empty: it did not fail.
	Failures int    `json:"failures,omitempty"`
	Error    string `json:"error,omitempty"`
	// Blocked is why the operator does not continue, as a sentence for users. It tries again at RetryAt. Empty: it continues.
	Blocked string    `json:"blocked,omitempty"`
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Needed is how many bytes the keys need without their history, if that is the reason. 0: there is another reason, or none.
	Needed int64 `json:"needed,omitempty"`
	// EndedAt is when no alarm was left. Zero: the operator is not done.
	EndedAt time.Time `json:"endedAt,omitzero"`
}

// IsActive is true from the alarm until its end. It is false for nil.
func (s *Space) IsActive() bool { return s != nil && s.EndedAt.IsZero() }

// Ended returns the record of an end at a time. What led to it is not needed any more.
func (s Space) Ended(at time.Time) *Space { return &Space{Since: s.Since, EndedAt: at} }
