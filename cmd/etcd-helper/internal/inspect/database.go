// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Options are those of View.
type Options struct {
	// Timeout is how long View waits if another process has opened the database. 0: without limit.
	Timeout time.Duration
	// CompactRevision is the revision to which the database counts as compacted. 0: that in the database.
	CompactRevision int64
	// Log receives the warnings of etcd's packages.
	Log *zap.Logger
}

// Database is a database that is open for reads.
type Database struct {
	tx      *bolt.Tx
	backend *readOnlyBackend
	store   mvcc.KV
	hashes  mvcc.HashStorage
}

// View opens the database in a file and calls read. The database is closed afterwards. The error is ErrNoDatabase or ErrCorrupt, or says why
// the database cannot be opened, or is that of read. read can be called twice, see repeatAfterFault.
func View(path string, options Options, read func(*Database) error) error {
	if err := checkFile(path); err != nil {
		return err
	}
	_, err := repeatAfterFault(path, func() (struct{}, error) { return struct{}{}, view(path, options, read) })

	return err
}

func view(path string, options Options, read func(*Database) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	// The packages of etcd and bbolt panic if they cannot read a database.
	defer func() {
		if reason := recover(); reason != nil {
			cause, isError := reason.(error)
			if !isError {
				cause = fmt.Errorf("%v", reason)
			}
			err = fmt.Errorf("%w: reading %s: %w", ErrCorrupt, path, cause)
		}
	}()

	db, err := open(path, options.Timeout)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // opened read-only

	tx, err := db.Begin(false)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	defer func() { _ = tx.Rollback() }() // a transaction that only reads

	bucket := tx.Bucket(schema.Key.Name())
	if bucket == nil {
		return fmt.Errorf("%w: %s has no bucket %q", ErrCorrupt, path, schema.Key.Name())
	}
	if err := checkRevisions(bucket); err != nil {
		return fmt.Errorf("%w: reading %s: %w", ErrCorrupt, path, err)
	}

	return readStore(&readOnlyBackend{tx: tx, compactRevision: options.CompactRevision}, options.Log, read)
}

// open opens the file with a lock that other readers share.
func open(path string, timeout time.Duration) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: timeout})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("opening the database: another process has opened %s, and did not close it for %s", path, timeout)
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(syscall.Errno)):
		return nil, fmt.Errorf("opening the database: %w", err)
	case err != nil:
		return nil, fmt.Errorf("%w: opening %s: %w", ErrCorrupt, path, err)
	default:
		return db, nil
	}
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

// readStore builds the index of the keys as etcd does when it starts, and calls read.
func readStore(b *readOnlyBackend, log *zap.Logger, read func(*Database) error) error {
	// A fatal error of etcd is a panic here.
	store := mvcc.NewStore(log.WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic)), b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	defer func() { _ = store.Close() }() // stops only its scheduler

	return read(&Database{tx: b.tx, backend: b, store: store, hashes: store.HashStorage()})
}

// Inspect returns what the database contains at its highest revision.
func (d *Database) Inspect() (Result, error) {
	revision, compactRevision := d.Revisions()
	keys, err := d.Range([]byte{0}, []byte{}, mvcc.RangeOptions{Rev: revision, Count: true})
	if err != nil {
		return Result{}, fmt.Errorf("counting the keys: %w", err)
	}
	hash, err := d.Hash(revision)
	if err != nil {
		return Result{}, err
	}

	return Result{Revision: revision, CompactRevision: compactRevision, Keys: int64(keys.Count), Hash: hash}, nil
}

// Revisions returns the highest revision, and the revision to which the database is compacted. The latter is 0 if it never was.
func (d *Database) Revisions() (revision, compactRevision int64) {
	txn := d.store.Read(mvcc.SharedBufReadTxMode, traceutil.TODO())
	defer txn.End()

	return txn.Rev(), max(txn.FirstRev(), 0)
}

// Range returns the keys from key and below end as etcd does. An empty end means no limit, and a nil end means only this key.
func (d *Database) Range(key, end []byte, options mvcc.RangeOptions) (*mvcc.RangeResult, error) {
	txn := d.store.Read(mvcc.SharedBufReadTxMode, traceutil.TODO())
	defer txn.End()

	return txn.Range(context.Background(), key, end, options)
}

// Hash returns the hash of the key-value pairs, as HashKV of etcd returns it for a revision.
func (d *Database) Hash(revision int64) (uint32, error) {
	hash, _, err := d.hashes.HashByRev(revision)
	if err != nil {
		return 0, fmt.Errorf("hashing the keys at revision %d: %w", revision, err)
	}

	return hash.Hash, nil
}

// ConsistentIndex returns the index of the last entry of the log that the database contains.
func (d *Database) ConsistentIndex() uint64 {
	index, _ := schema.UnsafeReadConsistentIndex(d.backend.ReadTx())

	return index
}

// Alarms returns the raised alarms.
func (d *Database) Alarms() ([]etcdserverpb.AlarmMember, error) {
	var alarms []etcdserverpb.AlarmMember
	err := d.backend.ReadTx().UnsafeForEach(schema.Alarm, func(key, _ []byte) error {
		alarm := etcdserverpb.AlarmMember{}
		if err := alarm.Unmarshal(key); err != nil {
			return fmt.Errorf("%w: reading an alarm: %w", ErrCorrupt, err)
		}
		alarms = append(alarms, alarm)

		return nil
	})

	return alarms, err
}

// Record is a key-value pair at a revision.
type Record struct {
	// Revision of the change.
	Revision mvcc.Revision
	// IsDeletion is true if the change deleted the key. Value then contains only the key.
	IsDeletion bool
	// Value is the key-value pair in the form of the database. It is valid only during the call.
	Value []byte
}

// Records is a position in the changes of a database.
type Records struct {
	cursor *bolt.Cursor
	next   func() (key, value []byte)
}

// RecordsFrom returns the changes from a revision on, in the order of their revisions. It is valid only in the call of View.
func (d *Database) RecordsFrom(revision int64) *Records {
	records := &Records{cursor: d.tx.Bucket(schema.Key.Name()).Cursor()}
	records.next = func() (key, value []byte) {
		records.next = records.cursor.Next

		return records.cursor.Seek(mvcc.RevToBytes(mvcc.Revision{Main: revision}, mvcc.NewRevBytes()))
	}

	return records
}

// Next returns the next change. False: there is none.
func (r *Records) Next() (Record, bool) {
	key, value := r.next()
	if key == nil {
		return Record{}, false
	}

	return Record{Revision: mvcc.BytesToRev(key), IsDeletion: mvcc.IsTombstone(key), Value: value}, true
}

// ForEachRecord visits the changes from a revision on, in the order of their revisions.
func (d *Database) ForEachRecord(from int64, visit func(Record) error) error {
	records := d.RecordsFrom(from)
	for record, exists := records.Next(); exists; record, exists = records.Next() {
		if err := visit(record); err != nil {
			return err
		}
	}

	return nil
}

// pageSize is the number of keys that are read at once.
const pageSize = 100

// Keys is a position in the keys of a database.
type Keys struct {
	database *Database
	// key and end are those of the next page. A nil key means that there is none.
	key, end []byte
	revision int64
	page     []mvccpb.KeyValue
}

// KeysAt returns the keys from key and below end at a revision, in the order of the keys. For key and end see Range. It is valid only in the
// call of View.
func (d *Database) KeysAt(key, end []byte, revision int64) *Keys {
	return &Keys{database: d, key: key, end: end, revision: revision}
}

// Next returns the next key. Nil: there is none.
func (k *Keys) Next() (*mvccpb.KeyValue, error) {
	if len(k.page) == 0 && k.key != nil {
		found, err := k.database.Range(k.key, k.end, mvcc.RangeOptions{Rev: k.revision, Limit: pageSize})
		if err != nil {
			return nil, fmt.Errorf("reading the keys at revision %d: %w", k.revision, err)
		}
		if k.page, k.key = found.KVs, nil; len(k.page) == pageSize && k.end != nil {
			k.key = append(bytes.Clone(k.page[pageSize-1].Key), 0)
		}
	}
	if len(k.page) == 0 {
		return nil, nil
	}
	next := &k.page[0]
	k.page = k.page[1:]

	return next, nil
}

// ForEachKey visits the keys that KeysAt returns.
func (d *Database) ForEachKey(key, end []byte, revision int64, visit func(mvccpb.KeyValue) error) error {
	for keys := d.KeysAt(key, end, revision); ; {
		kv, err := keys.Next()
		if err != nil || kv == nil {
			return err
		}
		if err := visit(*kv); err != nil {
			return err
		}
	}
}

// Size is the size of the file in bytes.
func (d *Database) Size() int64 { return d.tx.Size() }

// Copy writes the database into a new file. Its size is a multiple of the page size.
func (d *Database) Copy(path string) error {
	if err := d.tx.CopyFile(path, 0o600); err != nil {
		return fmt.Errorf("copying the database to %s: %w", path, err)
	}

	return nil
}
