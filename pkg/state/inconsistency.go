// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// Inconsistency is a difference between the data of voting members at the same revision.
type Inconsistency struct {
	// Since is when a comparison found the difference first. It begins again if other members differ.
	Since time.Time `json:"since"`
	// At is when the last comparison found it.
	At time.Time `json:"at"`
	// Revision is the revision of the last comparison.
	Revision int64 `json:"revision"`
	// Compacted is the revision up to which all members were compacted. At most 0: none was.
	Compacted int64 `json:"compacted,omitempty"`
	// Comparisons is the number of comparisons in a row that found the same members with different data. At least 1.
	Comparisons int `json:"comparisons"`
	// Members are all voting members of the last comparison, sorted by their names.
	Members []MemberHash `json:"members"`
}

// MemberHash is the hash of the keys of a voting member, as etcd's HashKV returns it.
type MemberHash struct {
	// Name of the member.
	Name string `json:"name"`
	// ID of the member, in hexadecimal digits.
	ID string `json:"id"`
	// Hash of its keys.
	Hash uint32 `json:"hash"`
}
