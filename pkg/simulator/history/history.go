// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package history

// Position is the last write in a database or in a snapshot. It contains all earlier writes of its history. The zero Position
// contains no write.
type Position struct {
	branch *branch
	// Revision of the last write, as etcd reports it.
	Revision int64
}

// branch is a history that begins with the data of another one. Every restore begins a branch: the same revision then is another
// write.
type branch struct {
	// from is where the branch begins.
	from Position
}

// New returns the position of a database without writes.
func New() Position { return Position{branch: &branch{}, Revision: 1} }

// Next returns the position after one more write.
func (p Position) Next() Position { return Position{branch: p.branch, Revision: p.Revision + 1} }

// At returns the position of another revision of the same history.
func (p Position) At(revision int64) Position {
	return Position{branch: p.branch, Revision: revision}
}

// Restored returns the position of a database that was restored from this position.
func (p Position) Restored() Position {
	return Position{branch: &branch{from: p}, Revision: max(p.Revision, 1)}
}

// Bumped returns the position of a database that was restored from this position with a higher revision.
func (p Position) Bumped(by int64) Position {
	return Position{branch: &branch{from: p}, Revision: p.Revision + by}
}

// IsZero is true for the position that contains no write and belongs to no database.
func (p Position) IsZero() bool { return p.branch == nil }

// Contains is true if the data at this position contains the write at the other position.
func (p Position) Contains(write Position) bool {
	return write.IsZero() || p.coverage(write.branch) >= write.Revision
}

// coverage is the last revision of a branch that the data at this position contains. 0: none.
func (p Position) coverage(of *branch) int64 {
	limit := p.Revision
	for at := p; at.branch != nil; at = at.branch.from {
		limit = min(limit, at.Revision)
		if at.branch == of {
			return limit
		}
	}

	return 0
}

// Acknowledged are the writes that etcd has acknowledged to clients. The zero value contains none.
type Acknowledged struct {
	// last is the last acknowledged write of each history.
	last []Position
	// reported are the writes whose loss was reported.
	reported []Position
}

// Acknowledge adds a write, and with it all earlier writes of its history.
func (a *Acknowledged) Acknowledge(write Position) {
	for i := range a.last {
		if a.last[i].branch == write.branch {
			a.last[i].Revision = max(a.last[i].Revision, write.Revision)

			return
		}
	}
	a.last = append(a.last, write)
}

// Report records that the loss of all writes was reported that are not contained in the given data now.
func (a *Acknowledged) Report(isContained func(write Position) bool) {
	a.reported = append(a.reported, a.Lost(isContained)...)
}

// Lost returns the last acknowledged write of each history that is neither contained in the given data nor reported.
func (a *Acknowledged) Lost(isContained func(write Position) bool) []Position {
	var lost []Position
	for _, write := range a.last {
		if !isContained(write) && !a.isReported(write) {
			lost = append(lost, write)
		}
	}

	return lost
}

func (a *Acknowledged) isReported(write Position) bool {
	for _, reported := range a.reported {
		if reported.branch == write.branch && reported.Revision >= write.Revision {
			return true
		}
	}

	return false
}

// Clone returns an independent copy.
func (a *Acknowledged) Clone() Acknowledged {
	return Acknowledged{last: append([]Position(nil), a.last...), reported: append([]Position(nil), a.reported...)}
}
