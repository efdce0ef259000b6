// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package raftlog reads the write-ahead log and the snapshot files of an etcd member. It reads the files of etcd 3.4, 3.5 and 3.6.
//
// What may not live here: writes, and decisions about the entries.
package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// ErrMissing means that the data directory contains no write-ahead log.
var ErrMissing = errors.New("no write-ahead log")

// ErrUnreadable means that etcd cannot read the write-ahead log.
var ErrUnreadable = errors.New("the write-ahead log cannot be read")

// Log is the log of a member since its last snapshot file.
type Log struct {
	// ClusterID and MemberID are the identity of the member.
	ClusterID, MemberID uint64
	// HardState is the state that the member wrote last. The entries above its Commit may be committed nevertheless: a member writes the
	// commit index later than the entries.
	HardState raftpb.HardState
	// Snapshot is the newest snapshot file that the log contains. Its index is 0 if there is none.
	Snapshot raftpb.SnapshotMetadata
	// Entries are the entries above the snapshot.
	Entries []raftpb.Entry
	// DiscardedBytes is the size of the data after the last entry that can be read. Like etcd, the package ignores this data: a member that
	// loses power can write an entry incompletely, and it has not confirmed that entry. A damaged disk has the same effect on entries that it
	// has confirmed.
	DiscardedBytes int64
}

// Last returns the term and the index of the last entry, or those of the snapshot.
func (l *Log) Last() (term, index uint64) {
	if len(l.Entries) == 0 {
		return l.Snapshot.Term, l.Snapshot.Index
	}
	last := l.Entries[len(l.Entries)-1]

	return last.Term, last.Index
}

// Voters returns the IDs of the voting members after all entries of the log, sorted. An entry at the end of the log may not be committed. former are
// those that entries above the commit index remove.
func (l *Log) Voters() (voters, former []uint64, err error) {
	voters = slices.Clone(l.Snapshot.ConfState.Voters)
	for _, entry := range l.Entries {
		change := raftpb.ConfChange{}
		if entry.Type != raftpb.EntryConfChange {
			if entry.Type == raftpb.EntryConfChangeV2 { // no version of etcd writes it
				return nil, nil, fmt.Errorf("%w: entry %d changes more than one member", ErrUnreadable, entry.Index)
			}

			continue
		}
		if err := change.Unmarshal(entry.Data); err != nil {
			return nil, nil, fmt.Errorf("%w: the change of a member in entry %d: %w", ErrUnreadable, entry.Index, err)
		}
		switch change.Type {
		case raftpb.ConfChangeAddNode:
			voters = append(voters, change.NodeID)
		case raftpb.ConfChangeRemoveNode:
			if entry.Index > l.HardState.Commit && slices.Contains(voters, change.NodeID) {
				former = append(former, change.NodeID)
			}
			voters = slices.DeleteFunc(voters, func(id uint64) bool { return id == change.NodeID })
		case raftpb.ConfChangeAddLearnerNode, raftpb.ConfChangeUpdateNode:
		}
	}
	slices.Sort(voters)

	return slices.Compact(voters), former, nil
}

// After returns the entries above an index. The error is ErrUnreadable if the log begins after the index, or if it ends before the index.
func (l *Log) After(index uint64) ([]raftpb.Entry, error) {
	if index < l.Snapshot.Index {
		return nil, fmt.Errorf("%w: it begins after index %d, and the database ends at index %d", ErrUnreadable, l.Snapshot.Index, index)
	}
	if _, last := l.Last(); last < index {
		return nil, fmt.Errorf("%w: it ends at index %d, before the end of the database at index %d", ErrUnreadable, last, index)
	}

	return l.Entries[index-l.Snapshot.Index:], nil
}

// Read reads the log in a data directory. It changes no file. Like etcd, it ignores a last entry that was not written completely.
func Read(dataDir string, log *zap.Logger) (result *Log, err error) {
	dir := datadir.ToWALDir(dataDir)
	if !wal.Exist(dir) {
		return nil, fmt.Errorf("%w: %s contains no file *.wal", ErrMissing, dir)
	}
	// The packages of etcd panic if a record contains something else.
	defer func() {
		if reason := recover(); reason != nil {
			result, err = nil, fmt.Errorf("%w: reading %s: %v", ErrUnreadable, dir, reason)
		}
	}()
	candidates, err := wal.ValidSnapshotEntries(log, dir)
	if err != nil {
		return nil, fmt.Errorf("%w: reading %s: %w", ErrUnreadable, dir, err)
	}
	result = &Log{Snapshot: newestSnapshot(datadir.ToSnapDir(dataDir), candidates, log)}
	if err := result.readEntries(dir, log); err != nil {
		return nil, err
	}
	result.DiscardedBytes, err = discardedBytes(dir)

	return result, err
}

// newestSnapshot returns the newest snapshot file that the log contains. Like etcd, it ignores files that cannot be read.
func newestSnapshot(dir string, candidates []walpb.Snapshot, log *zap.Logger) raftpb.SnapshotMetadata {
	files, err := os.ReadDir(dir)
	if err != nil {
		return raftpb.SnapshotMetadata{}
	}
	slices.Reverse(files) // the names begin with the term and the index
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".snap") {
			continue
		}
		snapshot, err := snap.Read(log, filepath.Join(dir, file.Name()))
		if err != nil {
			continue
		}
		isCandidate := func(candidate walpb.Snapshot) bool {
			return candidate.Index == snapshot.Metadata.Index && candidate.Term == snapshot.Metadata.Term
		}
		if slices.ContainsFunc(candidates, isCandidate) {
			return snapshot.Metadata
		}
	}

	return raftpb.SnapshotMetadata{}
}

// readEntries reads the entries above the snapshot.
func (l *Log) readEntries(dir string, log *zap.Logger) error {
	file, err := wal.OpenForRead(log, dir, walpb.Snapshot{Index: l.Snapshot.Index, Term: l.Snapshot.Term})
	if err != nil {
		return fmt.Errorf("%w: opening %s at index %d: %w", ErrUnreadable, dir, l.Snapshot.Index, err)
	}
	defer func() { _ = file.Close() }() // opened read-only
	metadata, state, entries, err := file.ReadAll()
	if err != nil {
		return fmt.Errorf("%w: reading %s after index %d: %w", ErrUnreadable, dir, l.Snapshot.Index, err)
	}
	identity := etcdserverpb.Metadata{}
	if err := identity.Unmarshal(metadata); err != nil {
		return fmt.Errorf("%w: reading the identity of the member in %s: %w", ErrUnreadable, dir, err)
	}
	l.ClusterID, l.MemberID, l.HardState, l.Entries = identity.ClusterID, identity.NodeID, state, entries

	return nil
}
