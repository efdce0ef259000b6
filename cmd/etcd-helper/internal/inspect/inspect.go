// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package inspect reads the revision, the number of keys and the hash of a database of etcd. It uses the packages with which etcd itself
// opens a database, and opens the file read-only.
//
// What may not live here: writes, connections, and decisions about what was found.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ErrNoDatabase means that the data directory contains no database, but other files: the file of the database does not exist, or it is empty.
var ErrNoDatabase = errors.New("no database")

// ErrNoFiles means that the data directory does not exist, or that it contains no files: no member has ever run there.
var ErrNoFiles = errors.New("no files")

// ErrCorrupt means that etcd cannot read the database.
var ErrCorrupt = errors.New("the database is corrupt")

// Result is what a database contains. Its form in JSON is a contract with the operator: see Inspection in its package etcdcluster.
type Result struct {
	// Revision is the highest revision in the database. It is 1 if nothing was ever written.
	Revision int64 `json:"revision"`
	// CompactRevision is the revision to which the database is compacted. 0: it never was.
	CompactRevision int64 `json:"compactRevision,omitempty"`
	// Keys is the number of keys that are not deleted at Revision.
	Keys int64 `json:"keys"`
	// Hash is the hash of the key-value pairs, as HashKV of etcd returns it for Revision.
	Hash uint32 `json:"hash"`
}

// DataDir inspects the database in a data directory of etcd. It waits for the given time if another process has opened the database; it
// does not read a database in use. 0: it waits without limit.
//
// Entries that only the write-ahead log contains are not counted. These are the entries of the last 100 milliseconds or the last 10,000
// operations before a process of etcd was killed. There are none after etcd stopped by itself.
//
// The error is ErrNoFiles, ErrNoDatabase or ErrCorrupt, or says why the database cannot be opened or read.
func DataDir(dir string, timeout time.Duration, log *zap.Logger) (Result, error) {
	path := datadir.ToBackendFileName(dir)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Result{}, withoutDatabase(os.DirFS(dir), dir, path)
	case err != nil:
		return Result{}, fmt.Errorf("opening the database: %w", err)
	case !info.Mode().IsRegular():
		return Result{}, fmt.Errorf("opening the database: %s is not a regular file", path)
	case info.Size() == 0:
		return Result{}, fmt.Errorf("%w: %s is empty", ErrNoDatabase, path)
	}

	return repeatAfterFault(path, func() (Result, error) { return file(path, timeout, log) })
}

// withoutDatabase returns the error for a data directory without the file of the database. files are those of the data directory.
func withoutDatabase(files fs.FS, dir, path string) error {
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case name == "." && errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && !entry.IsDir():
			return ErrNoDatabase
		default: // a subdirectory that disappears may have contained files
			return err
		}
	})
	switch {
	case err == nil:
		return fmt.Errorf("%w: %s is empty or does not exist", ErrNoFiles, dir)
	case errors.Is(err, ErrNoDatabase):
		return fmt.Errorf("%w: %s does not exist", err, path)
	default:
		return fmt.Errorf("reading the data directory: %w", err)
	}
}

// memoryFault is the panic of a goroutine that accesses memory without a page, with debug.SetPanicOnFault.
type memoryFault interface {
	runtime.Error
	Addr() uintptr
}

// repeatAfterFault repeats an inspection after a fault of the memory that the file is mapped to. A page outside of the file causes it, but so
// does a page that cannot be read from the volume. The file is therefore read before: its error is not ErrCorrupt.
func repeatAfterFault(path string, inspect func() (Result, error)) (Result, error) {
	result, err := inspect()
	if !errors.As(err, new(memoryFault)) {
		return result, err
	}
	if err := readAll(path); err != nil {
		return Result{}, fmt.Errorf("reading the file of the database: %w", err)
	}

	return inspect()
}

// readAll reads a file to its end.
func readAll(path string) error {
	file, err := os.Open(path) // #nosec G304 -- the file that bbolt has opened
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened read-only
	_, err = io.Copy(io.Discard, file)

	return err
}

// file inspects a file that is not empty. Its error for a fault of the memory that the file is mapped to is ErrCorrupt and a memoryFault.
func file(path string, timeout time.Duration, log *zap.Logger) (result Result, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	// The packages of etcd and bbolt panic if they cannot read a database.
	defer func() {
		if reason := recover(); reason != nil {
			cause, isError := reason.(error)
			if !isError {
				cause = fmt.Errorf("%v", reason)
			}
			result, err = Result{}, fmt.Errorf("%w: reading %s: %w", ErrCorrupt, path, cause)
		}
	}()

	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: timeout})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return Result{}, fmt.Errorf("opening the database: another process has opened %s, and did not close it for %s", path, timeout)
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(syscall.Errno)):
		return Result{}, fmt.Errorf("opening the database: %w", err)
	case err != nil:
		return Result{}, fmt.Errorf("%w: opening %s: %w", ErrCorrupt, path, err)
	}
	defer func() { _ = db.Close() }() // opened read-only

	tx, err := db.Begin(false)
	if err != nil {
		return Result{}, fmt.Errorf("reading %s: %w", path, err)
	}
	defer func() { _ = tx.Rollback() }() // a transaction that only reads

	bucket := tx.Bucket(schema.Key.Name())
	if bucket == nil {
		return Result{}, fmt.Errorf("%w: %s has no bucket %q", ErrCorrupt, path, schema.Key.Name())
	}
	if err := checkRevisions(bucket); err != nil {
		return Result{}, fmt.Errorf("%w: reading %s: %w", ErrCorrupt, path, err)
	}

	return read(&readOnlyBackend{tx: tx}, log)
}

// checkRevisions returns an error unless the revisions increase. The store panics then in a goroutine of its own, which ends the process.
func checkRevisions(bucket *bolt.Bucket) error {
	last := mvcc.Revision{}

	return bucket.ForEach(func(key, _ []byte) error {
		revision := mvcc.BytesToRev(key)
		if !revision.GreaterThan(last) {
			return fmt.Errorf("revision %d/%d follows %d/%d", revision.Main, revision.Sub, last.Main, last.Sub)
		}
		last = revision

		return nil
	})
}

// read builds the index of the keys as etcd does when it starts.
func read(b *readOnlyBackend, log *zap.Logger) (Result, error) {
	// A fatal error of etcd is a panic here.
	store := mvcc.NewStore(log.WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic)), b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	defer func() { _ = store.Close() }() // stops only its scheduler

	txn := store.Read(mvcc.SharedBufReadTxMode, traceutil.TODO())
	revision, compactRevision := txn.Rev(), txn.FirstRev()
	keys, err := txn.Range(context.Background(), []byte{0}, []byte{}, mvcc.RangeOptions{Rev: revision, Count: true})
	txn.End()
	if err != nil {
		return Result{}, fmt.Errorf("counting the keys: %w", err)
	}

	hash, _, err := store.HashStorage().HashByRev(revision)
	if err != nil {
		return Result{}, fmt.Errorf("hashing the keys: %w", err)
	}

	return Result{Revision: revision, CompactRevision: max(compactRevision, 0), Keys: int64(keys.Count), Hash: hash.Hash}, nil
}
