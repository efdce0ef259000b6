// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package inspect reads the revision, the number of keys and the hash of a database of etcd. It uses the packages with which etcd itself
// opens a database, and opens the file read-only.
//
// What may not live here: writes, connections, and decisions about what was found.
package inspect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"

	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.uber.org/zap"
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
	path, err := DatabaseIn(dir)
	if err != nil {
		return Result{}, err
	}

	return repeatAfterFault(path, func() (Result, error) { return file(path, timeout, log) })
}

// DatabaseIn returns the path of the database in a data directory of etcd. The error is ErrNoFiles or ErrNoDatabase, or says why the file cannot
// be read.
func DatabaseIn(dir string) (string, error) {
	path := datadir.ToBackendFileName(dir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", withoutDatabase(os.DirFS(dir), dir, path)
	}

	return path, checkFile(path)
}

// checkFile returns an error unless the path is a regular file that is not empty.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s does not exist", ErrNoDatabase, path)
	case err != nil:
		return fmt.Errorf("opening the database: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("opening the database: %s is not a regular file", path)
	case info.Size() == 0:
		return fmt.Errorf("%w: %s is empty", ErrNoDatabase, path)
	default:
		return nil
	}
}

// file inspects a file that is not empty. Its error for a fault of the memory that the file is mapped to is ErrCorrupt and a memoryFault.
func file(path string, timeout time.Duration, log *zap.Logger) (result Result, err error) {
	err = view(path, Options{Timeout: timeout, Log: log}, func(database *Database) error {
		result, err = database.Inspect()

		return err
	})

	return result, err
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
func repeatAfterFault[T any](path string, inspect func() (T, error)) (T, error) {
	result, err := inspect()
	if !errors.As(err, new(memoryFault)) {
		return result, err
	}
	if err := readAll(path); err != nil {
		return *new(T), fmt.Errorf("reading the file of the database: %w", err)
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
