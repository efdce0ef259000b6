// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// Evidence is what a quorum of the members has confirmed about the data of a cluster. Acts that delete or replace data depend on
// it. Lost members, and a store that was rolled back, cannot report what they had.
type Evidence struct {
	// HighestRevision is the highest revision that a linearizable read has returned. 0: none was read.
	HighestRevision int64 `json:"highestRevision,omitempty"`
	// ClusterID is the ID of the cluster that returned it, in hexadecimal digits. Empty: not known, for example after a restore.
	ClusterID string `json:"clusterID,omitempty"`
	// Term is the raft term of that read. 0: none was read.
	Term uint64 `json:"term,omitempty"`
	// At is when that read was done. Zero: none was.
	At time.Time `json:"at,omitzero"`
	// RolledBack is a lower revision that a quorum returned later, or the revision of another cluster. The revision above stays until a user
	// accepts this one, or until the cluster is restored. Nil: there was none.
	RolledBack *RolledBack `json:"rolledBack,omitempty"`
	// AcceptedRevision is the revision that a user accepted last after a rollback. 0: none.
	AcceptedRevision int64 `json:"acceptedRevision,omitempty"`
	// AcceptedRollbackAt is when the rollback that a user accepted last was found. Zero: there was none.
	AcceptedRollbackAt time.Time `json:"acceptedRollbackAt,omitzero"`
	// LostRevision is the highest known revision of the writes that users have given up after a rollback. A snapshot with a higher revision than
	// AcceptedRevision may contain these writes, until a full snapshot has a higher revision than LostRevision. 0: no snapshot may contain any.
	LostRevision int64 `json:"lostRevision,omitempty"`
	// Voters are the voting members in the last member list of a quorum, sorted by their IDs. Nil: no list was read.
	Voters []Voter `json:"voters,omitempty"`
}

// RolledBack is a revision of a linearizable read that is lower than an earlier one, or that another cluster returned.
type RolledBack struct {
	// Revision that was read: the lowest one of the cluster that responds now.
	Revision int64 `json:"revision"`
	// ClusterID is the ID of the cluster that returned it, in hexadecimal digits. Empty: it is not known.
	ClusterID string `json:"clusterID,omitempty"`
	// At is when it was read first.
	At time.Time `json:"at"`
	// Snapshots is the revision of the newest snapshot at that time, if it is higher than the highest revision that a linearizable read had
	// returned. 0: it was not.
	Snapshots int64 `json:"snapshots,omitempty"`
}

// Voter is a voting member.
type Voter struct {
	// Name of the member.
	Name string `json:"name"`
	// ID of the member, in hexadecimal digits.
	ID string `json:"id"`
}
