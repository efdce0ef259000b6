// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

var (
	// ErrUnreachable is the error of an access to a store that does not respond.
	ErrUnreachable = errors.New("the store does not answer")
	// ErrEmpty is the error of a restore from a store without snapshots.
	ErrEmpty = errors.New("the store has no full snapshot")
)

// Snapshot is a full snapshot, or the delta snapshots that follow one.
type Snapshot struct {
	// Position is the last write in the snapshot.
	Position Position
	// Start is the first revision in delta snapshots. 0: the snapshot is full.
	Start int64
	// At is when the snapshot was taken.
	At time.Time
	// Delta is true for delta snapshots.
	Delta bool
}

// Name returns the name of the object in the store. Its last part is the time, so that names are unique.
func (s Snapshot) Name() string {
	if s.Delta {
		return fmt.Sprintf("Incr-%08d-%08d-%d.gz", s.Start, s.Position.Revision, s.At.Unix())
	}

	return fmt.Sprintf("Full-00000000-%08d-%d.gz", s.Position.Revision, s.At.Unix())
}

// Store is the backup store of one Etcd. The zero Store is reachable and empty.
type Store struct {
	// Down is true while the store is unreachable.
	Down bool

	snapshots []Snapshot
	// removed are the snapshots that a fault has removed. PutBack adds them again.
	removed []Snapshot
}

// Add stores a snapshot of a database.
func (s *Store) Add(position Position, at time.Time, isDelta bool) (Snapshot, error) {
	if s.Down {
		return Snapshot{}, ErrUnreachable
	}
	snapshot := Snapshot{Position: position, At: at, Delta: isDelta}
	if isDelta {
		snapshot.Start = min(s.Last().Position.Revision, position.Revision-1) + 1
	}
	s.snapshots = append(slices.Clip(s.snapshots), snapshot)

	return snapshot, nil
}

// Newest returns what a restore contains: the full snapshot with the highest revision, as the sidecar chooses it, and the delta
// snapshots that continue it. Delta snapshots alone cannot be restored.
func (s *Store) Newest() (Snapshot, error) {
	full, err := s.NewestFull()
	if err != nil {
		return full, err
	}

	return s.newest(func(snapshot Snapshot) bool { return snapshot == full || snapshot.Position.Contains(full.Position) })
}

// NewestFull returns the full snapshot with the highest revision.
func (s *Store) NewestFull() (Snapshot, error) {
	return s.newest(func(snapshot Snapshot) bool { return !snapshot.Delta })
}

func (s *Store) newest(counts func(Snapshot) bool) (Snapshot, error) {
	if s.Down {
		return Snapshot{}, ErrUnreachable
	}
	newest, found := Snapshot{}, false
	for _, snapshot := range s.snapshots {
		if counts(snapshot) && (!found || snapshot.Position.Revision >= newest.Position.Revision) {
			newest, found = snapshot, true
		}
	}
	if !found {
		return Snapshot{}, ErrEmpty
	}

	return newest, nil
}

// Last returns the snapshot that was stored last. The zero Snapshot: there is none.
func (s *Store) Last() Snapshot {
	if len(s.snapshots) == 0 {
		return Snapshot{}
	}

	return s.snapshots[len(s.snapshots)-1]
}

// IsEmpty is true if the store has no snapshot, whether it is reachable or not.
func (s *Store) IsEmpty() bool { return len(s.snapshots) == 0 }

// Contains is true if a restore contains the write, whether the store is reachable or not.
func (s *Store) Contains(write Position) bool {
	reachable := *s
	reachable.Down = false
	newest, err := reachable.Newest()

	return err == nil && newest.Position.Contains(write)
}

// Empty is a fault: it removes all snapshots.
func (s *Store) Empty() { s.RollBack(0) }

// RollBack is a fault: it removes all snapshots except the oldest ones.
func (s *Store) RollBack(oldest int) {
	oldest = min(oldest, len(s.snapshots))
	s.removed = append(slices.Clip(s.removed), s.snapshots[oldest:]...)
	s.snapshots = slices.Clone(s.snapshots[:oldest])
}

// RollBackTo is a fault: it removes all writes after a revision.
func (s *Store) RollBackTo(revision int64) {
	last := len(s.snapshots) - 1
	if last < 0 || s.snapshots[last].Position.Revision <= revision {
		return
	}
	snapshot := s.snapshots[last]
	snapshot.Position, snapshot.Delta, snapshot.Start = snapshot.Position.At(revision), false, 0
	s.Empty()
	s.snapshots = []Snapshot{snapshot}
}

// PutBack adds the snapshots again that a fault has removed.
func (s *Store) PutBack() {
	s.snapshots, s.removed = append(slices.Clip(s.snapshots), s.removed...), nil
}

// Len is the number of snapshots.
func (s *Store) Len() int { return len(s.snapshots) }

// Clone returns an independent copy.
func (s *Store) Clone() Store {
	return Store{Down: s.Down, snapshots: slices.Clone(s.snapshots), removed: slices.Clone(s.removed)}
}
