// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"math"
	"sync"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// readOnlyBackend is a backend of etcd's store that reads from one transaction and discards all writes. The store writes when it opens a
// database: it creates buckets, and finishes an interrupted compaction. Methods that the store does not call panic.
type readOnlyBackend struct {
	backend.Backend

	// mu is the lock of all transactions: the transaction of bbolt is not safe for concurrent use.
	mu sync.Mutex
	tx *bolt.Tx
	// compactRevision replaces the revision to which the database is to be compacted. 0: that in the database.
	compactRevision int64
}

// ReadTx returns a transaction that reads the database.
func (b *readOnlyBackend) ReadTx() backend.ReadTx { return &readTx{b} }

// ConcurrentReadTx returns a transaction that reads the database.
func (b *readOnlyBackend) ConcurrentReadTx() backend.ReadTx { return &readTx{b} }

// BatchTx returns a transaction that reads nothing and writes nothing.
func (b *readOnlyBackend) BatchTx() backend.BatchTx { return &discardingTx{b} }

// ForceCommit does nothing.
func (b *readOnlyBackend) ForceCommit() {}

// Size is the size of the database in bytes.
func (b *readOnlyBackend) Size() int64 { return b.tx.Size() }

// SizeInUse is the size of the database in bytes.
func (b *readOnlyBackend) SizeInUse() int64 { return b.tx.Size() }

type readTx struct{ backend *readOnlyBackend }

func (t *readTx) RLock()   { t.backend.mu.Lock() }
func (t *readTx) RUnlock() { t.backend.mu.Unlock() }

// UnsafeRange returns the pairs with keys from key and below end, at most limit. Without end it returns the pair with this key. With a
// limit of 0 it returns all. The keys are copies, because the store reads them in a goroutine of its own, also after a panic has closed
// the file. The values are not copied: thousands of them may be large.
func (t *readTx) UnsafeRange(bucket backend.Bucket, key, end []byte, limit int64) (keys, values [][]byte) {
	if t.backend.compactRevision > 0 && bucket.ID() == schema.Meta.ID() && bytes.Equal(key, schema.ScheduledCompactKeyName) {
		return [][]byte{key}, [][]byte{mvcc.RevToBytes(mvcc.Revision{Main: t.backend.compactRevision}, mvcc.NewRevBytes())}
	}
	content := t.backend.tx.Bucket(bucket.Name())
	if content == nil {
		return nil, nil
	}
	if limit <= 0 {
		limit = math.MaxInt64
	}
	isMatch := func(k []byte) bool { return bytes.Compare(k, end) < 0 }
	if len(end) == 0 {
		isMatch = func(k []byte) bool { return bytes.Equal(k, key) }
	}
	cursor := content.Cursor()
	for k, v := cursor.Seek(key); k != nil && isMatch(k) && int64(len(keys)) < limit; k, v = cursor.Next() {
		keys, values = append(keys, bytes.Clone(k)), append(values, v)
	}

	return keys, values
}

// UnsafeForEach visits all pairs of a bucket.
func (t *readTx) UnsafeForEach(bucket backend.Bucket, visit func(k, v []byte) error) error {
	if content := t.backend.tx.Bucket(bucket.Name()); content != nil {
		return content.ForEach(visit)
	}

	return nil
}

// discardingTx discards all writes. An interrupted compaction finds no keys in it, and ends.
type discardingTx struct{ backend *readOnlyBackend }

func (t *discardingTx) Lock()             { t.backend.mu.Lock() }
func (t *discardingTx) LockInsideApply()  { t.backend.mu.Lock() }
func (t *discardingTx) LockOutsideApply() { t.backend.mu.Lock() }
func (t *discardingTx) Unlock()           { t.backend.mu.Unlock() }
func (*discardingTx) Commit()             {}
func (*discardingTx) CommitAndStop()      {}

func (*discardingTx) UnsafeCreateBucket(backend.Bucket)           {}
func (*discardingTx) UnsafeDeleteBucket(backend.Bucket)           {}
func (*discardingTx) UnsafePut(backend.Bucket, []byte, []byte)    {}
func (*discardingTx) UnsafeSeqPut(backend.Bucket, []byte, []byte) {}
func (*discardingTx) UnsafeDelete(backend.Bucket, []byte)         {}

func (*discardingTx) UnsafeRange(backend.Bucket, []byte, []byte, int64) (keys, values [][]byte) {
	return nil, nil
}

func (*discardingTx) UnsafeForEach(backend.Bucket, func(k, v []byte) error) error { return nil }
