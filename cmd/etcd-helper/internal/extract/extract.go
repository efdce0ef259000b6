// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package extract creates a full snapshot from the data directory of a member that does not run. The snapshot includes the entries of the log
// that the database does not contain. The package changes only copies.
//
// What may not live here: connections, and the decision which member has the newest data.
package extract

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/modify"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/raftlog"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// ErrRevision means that the data has a lower revision than requested.
var ErrRevision = errors.New("the revision is too low")

// Request is what to extract.
type Request struct {
	// DataDir is the data directory of the member. Empty: see Database.
	DataDir string
	// Database is the file of a database without a log.
	Database string
	// SkipLog is true if only the database of the data directory is extracted.
	SkipLog bool
	// Work is an existing directory for a copy of the database.
	Work string
	// Store is the directory for the full snapshot: the directory `v2` of a backup store. It is created if it does not exist.
	Store string
	// MinRevision is the lowest revision before the bump with which a snapshot is written. 0: any.
	MinRevision int64
	// Bump is by how much the revision is increased. 0: it stays.
	Bump int64
	// BumpBelow is the revision from which on Bump does not apply. 0: it always applies.
	BumpBelow int64
	// ClearAlarms is true if the alarms are removed.
	ClearAlarms bool
	// Gzip is true if the snapshot is compressed.
	Gzip bool
	// Timeout is how long to wait while another process has opened the database.
	Timeout time.Duration
	// Now is the time of the snapshot.
	Now time.Time
	// Log receives the warnings of etcd's packages.
	Log *zap.Logger
}

// Result is what was extracted, in its form in JSON.
type Result struct {
	inspect.Result
	// Snapshot is the name of the full snapshot.
	Snapshot string `json:"snapshot"`
	// Entries is the number of entries of the log that were applied to the database. Uncommitted of them are above the commit index: a quorum
	// may have confirmed them, and the member did not write that.
	Entries     int `json:"entries"`
	Uncommitted int `json:"uncommitted"`
	// LastTerm and LastIndex are the term and the index of the last entry of the log. 0: there was no log.
	LastTerm  uint64 `json:"lastTerm,omitempty"`
	LastIndex uint64 `json:"lastIndex,omitempty"`
	// DiscardedBytes is the size of the data after the last entry that can be read.
	DiscardedBytes int64 `json:"discardedBytes,omitempty"`
	// ExtractedRevision is the highest revision before the bump.
	ExtractedRevision int64 `json:"extractedRevision"`
	// ClearedAlarms is the number of removed alarms.
	ClearedAlarms int `json:"clearedAlarms,omitempty"`
}

// Snapshot creates the full snapshot of a member. Its errors are those of the packages inspect and raftlog.
func Snapshot(request Request) (result Result, err error) {
	dir, err := os.MkdirTemp(request.Work, "extract-")
	if err != nil {
		return Result{}, fmt.Errorf("creating a directory for the copy: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "db")
	if err := request.copyDatabase(path, &result); err != nil {
		return Result{}, err
	}
	if err := request.modify(path, &result); err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(request.Store, 0o750); err != nil {
		return Result{}, fmt.Errorf("creating the directory for the snapshot: %w", err)
	}
	name := snapshots.Name{Kind: snapshots.Full, Last: result.Revision, Created: request.Now}
	if request.Gzip {
		name.Compression = ".gz"
	}
	result.Snapshot = name.String()

	return result, snapshots.WriteFull(request.Store, name, path)
}

// copyDatabase copies the database, and applies the entries of the log to the copy.
func (r Request) copyDatabase(path string, result *Result) error {
	source := r.Database
	if source == "" {
		var err error
		if source, err = inspect.DatabaseIn(r.DataDir); err != nil {
			return err
		}
	}

	// The database stays open, so that no etcd starts and writes to the log.
	return inspect.View(source, inspect.Options{Timeout: r.Timeout, Log: r.Log}, func(database *inspect.Database) error {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing an incomplete copy: %w", err)
		}
		if r.Database != "" || r.SkipLog {
			return database.Copy(path)
		}
		log, err := raftlog.Read(r.DataDir, r.Log)
		if err != nil {
			return fmt.Errorf("%w; extract without the log to lose its last writes", err)
		}

		return r.copyWithLog(database, log, path, result)
	})
}

// copyWithLog copies the database, or the newer one that a leader has sent, and applies the entries that it lacks.
func (r Request) copyWithLog(database *inspect.Database, log *raftlog.Log, path string, result *Result) error {
	index := database.ConsistentIndex()
	if index < log.Snapshot.Index {
		received := inspect.ReceivedDatabase(r.DataDir, log.Snapshot.Index)

		return inspect.View(received, inspect.Options{Timeout: r.Timeout, Log: r.Log}, func(newer *inspect.Database) error {
			if newer.ConsistentIndex() < log.Snapshot.Index {
				return fmt.Errorf("%w: %s ends at index %d, before the snapshot file at index %d",
					raftlog.ErrUnreadable, received, newer.ConsistentIndex(), log.Snapshot.Index)
			}

			return r.copyWithLog(newer, log, path, result)
		})
	}
	entries, err := log.After(index)
	if err != nil {
		return err
	}
	if err := database.Copy(path); err != nil {
		return err
	}
	if err := applyEntries(path, entries, r.Log); err != nil {
		return err
	}
	result.LastTerm, result.LastIndex = log.Last()
	result.Entries, result.DiscardedBytes = len(entries), log.DiscardedBytes
	for _, entry := range entries {
		if entry.Index > log.HardState.Commit {
			result.Uncommitted++
		}
	}

	return nil
}

// modify changes the copy on request, and inspects it.
func (r Request) modify(path string, result *Result) (err error) {
	if r.ClearAlarms {
		if result.ClearedAlarms, err = modify.ClearAlarms(path, r.Timeout, r.Log); err != nil {
			return err
		}
	}
	inspectCopy := func(database *inspect.Database) (err error) {
		result.Result, err = database.Inspect()

		return err
	}
	if err := inspect.View(path, inspect.Options{Timeout: r.Timeout, Log: r.Log}, inspectCopy); err != nil {
		return err
	}
	result.ExtractedRevision = result.Revision
	if result.Revision < r.MinRevision {
		return fmt.Errorf("%w: the data has revision %d, and %d is the lowest one that was requested", ErrRevision, result.Revision, r.MinRevision)
	}
	if r.Bump == 0 || r.BumpBelow > 0 && result.Revision >= r.BumpBelow {
		return nil
	}
	if _, err := modify.Bump(path, r.Bump, r.Timeout, r.Log); err != nil {
		return err
	}

	return inspect.View(path, inspect.Options{Timeout: r.Timeout, Log: r.Log}, inspectCopy)
}
