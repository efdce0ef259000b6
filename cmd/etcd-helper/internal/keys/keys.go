// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package keys returns, compares and counts the keys of a database at a revision.
//
// What may not live here: writes, and the meaning of values.
package keys

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
)

// ErrNotFound means that a key does not exist at the revision.
var ErrNotFound = errors.New("the key does not exist")

// ErrRevision means that the database does not contain the revision.
var ErrRevision = errors.New("the database does not contain the revision")

// Selection is which keys to read.
type Selection struct {
	// Prefix of the keys. Empty: all keys.
	Prefix string
	// Revision at which they are read. 0: the highest.
	Revision int64
	// WithValues is true if the values are needed.
	WithValues bool
}

// Entry is a key, in its form in JSON.
type Entry struct {
	// Key is the key if it is text, and KeyBytes in base64 otherwise.
	Key      string `json:"key,omitempty"`
	KeyBytes []byte `json:"keyBytes,omitempty"`
	// CreateRevision, ModRevision and Version are those of etcd.
	CreateRevision int64 `json:"createRevision"`
	ModRevision    int64 `json:"modRevision"`
	Version        int64 `json:"version"`
	// Lease is the ID of the lease in hexadecimal digits. Empty: none.
	Lease string `json:"lease,omitempty"`
	// Bytes is the size of the value.
	Bytes int `json:"bytes"`
	// Value in base64. Nil: it was not requested.
	Value *[]byte `json:"value,omitempty"`
}

// Name returns the key as text. A key with other bytes is quoted.
func (e Entry) Name() string {
	if e.KeyBytes != nil {
		return strconv.Quote(string(e.KeyBytes))
	}
	if quoted := strconv.Quote(e.Key); quoted != `"`+e.Key+`"` {
		return quoted
	}

	return e.Key
}

func entryFor(kv mvccpb.KeyValue, withValue bool) Entry {
	entry := Entry{CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Bytes: len(kv.Value)}
	if utf8.Valid(kv.Key) {
		entry.Key = string(kv.Key)
	} else {
		entry.KeyBytes = kv.Key
	}
	if kv.Lease != 0 {
		entry.Lease = fmt.Sprintf("%016x", kv.Lease)
	}
	if withValue {
		value := append([]byte{}, kv.Value...)
		entry.Value = &value
	}

	return entry
}

// Get returns a key. The error is ErrNotFound or ErrRevision, or says why it cannot be read.
func Get(database *inspect.Database, key string, selection Selection) (Entry, error) {
	revision, err := revisionOf(database, selection)
	if err != nil {
		return Entry{}, err
	}
	found, err := database.KeysAt([]byte(key), nil, revision).Next()
	switch {
	case err != nil:
		return Entry{}, err
	case found == nil:
		return Entry{}, fmt.Errorf("%w: %q at revision %d; list the keys with its prefix", ErrNotFound, key, revision)
	default:
		return entryFor(*found, selection.WithValues), nil
	}
}

// ForEach visits the selected keys. The error is ErrRevision, or that of visit.
func ForEach(database *inspect.Database, selection Selection, visit func(Entry) error) error {
	revision, err := revisionOf(database, selection)
	if err != nil {
		return err
	}
	key, end := rangeOf(selection.Prefix)

	return database.ForEachKey(key, end, revision, func(kv mvccpb.KeyValue) error { return visit(entryFor(kv, selection.WithValues)) })
}

// revisionOf returns the revision of a selection if the database contains it.
func revisionOf(database *inspect.Database, selection Selection) (int64, error) {
	last, first := database.Revisions()
	switch revision := selection.Revision; {
	case revision == 0:
		return last, nil
	case revision < first:
		return 0, fmt.Errorf("%w %d: it is compacted to revision %d; use a revision from %d to %d", ErrRevision, revision, first, first, last)
	case revision > last:
		return 0, fmt.Errorf("%w %d: its last revision is %d; use a revision from %d to %d", ErrRevision, revision, last, max(first, 1), last)
	default:
		return revision, nil
	}
}

// rangeOf returns the range of the keys with a prefix, as Database.Range expects it.
func rangeOf(prefix string) (key, end []byte) {
	if prefix == "" {
		return []byte{0}, []byte{}
	}
	end = bytes.Clone([]byte(prefix))
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++

			return []byte(prefix), end[:i+1]
		}
	}

	return []byte(prefix), []byte{}
}
