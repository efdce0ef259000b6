// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
)

// Compare returns ErrRestoreDiffers unless the database that the sidecar restored has the same history as the replayed one. Leases are ignored,
// because the sidecar drops those of delta snapshots. Up to the higher compact revision of both, only the keys that exist then are compared.
//
// A lease of the full snapshot can expire while the sidecar restores. A key is then deleted at another revision than in the live etcd, and
// the sidecar can skip an event without an error.
func Compare(restored, replayed string, log *zap.Logger) error {
	options := inspect.Options{Timeout: time.Second, Log: log}

	return inspect.View(restored, options, func(a *inspect.Database) error {
		return inspect.View(replayed, options, func(b *inspect.Database) error { return compare(a, b, log) })
	})
}

func compare(restored, replayed *inspect.Database, log *zap.Logger) error {
	foundRevision, foundCompactRevision := restored.Revisions()
	revision, compactRevision := replayed.Revisions()
	from := max(foundCompactRevision, compactRevision)
	if from > min(foundRevision, revision) {
		return fmt.Errorf("%w: it is compacted to revision %d, and its last revision is %d instead of %d", ErrRestoreDiffers, from, foundRevision, revision)
	}
	if from > 0 {
		if err := compareKeys(restored, replayed, from, log); err != nil {
			return err
		}
	}
	if err := compareRecords(restored, replayed, from+1); err != nil {
		return err
	}
	if foundRevision != revision {
		return fmt.Errorf("%w: its last revision is %d instead of %d", ErrRestoreDiffers, foundRevision, revision)
	}

	return nil
}

// compareKeys compares the keys that exist at a revision. The log contains the first key that differs. The error contains only its prefix: the status of
// the Etcd and events show the error.
func compareKeys(restored, replayed *inspect.Database, revision int64, log *zap.Logger) error {
	keys := map[string]mvccpb.KeyValue{}
	err := replayed.ForEachKey([]byte{0}, []byte{}, revision, func(kv mvccpb.KeyValue) error {
		kv.Lease, kv.Value = 0, hashOf(kv.Value)
		keys[string(kv.Key)] = kv

		return nil
	})
	if err != nil {
		return err
	}
	err = restored.ForEachKey([]byte{0}, []byte{}, revision, func(kv mvccpb.KeyValue) error {
		kv.Lease, kv.Value = 0, hashOf(kv.Value)
		if expected, exists := keys[string(kv.Key)]; !exists || !isEqual(kv, expected) {
			log.Error("A key is another one", zap.ByteString("key", kv.Key), zap.Int64("revision", revision))

			return fmt.Errorf("%w: a key with the prefix %q is another one at revision %d", ErrRestoreDiffers, prefixOf(string(kv.Key)), revision)
		}
		delete(keys, string(kv.Key))

		return nil
	})
	if err != nil {
		return err
	}
	for key := range keys {
		log.Error("A key is missing", zap.String("key", key), zap.Int64("revision", revision))

		return fmt.Errorf("%w: a key with the prefix %q is missing at revision %d, and %d others", ErrRestoreDiffers, prefixOf(key), revision, len(keys)-1)
	}

	return nil
}

// prefixOf returns at most two elements of the path of a key, such as /registry/secrets, without the name of an object. Empty: the key has no path.
func prefixOf(key string) string {
	elements, longest := strings.Split(key, "/"), 2
	if strings.HasPrefix(key, "/") {
		longest++ // the first element is empty
	}

	return strings.Join(elements[:min(len(elements)-1, longest)], "/")
}

// compareRecords compares the changes from a revision on.
func compareRecords(restored, replayed *inspect.Database, from int64) error {
	found, expected := restored.RecordsFrom(from), replayed.RecordsFrom(from)
	for {
		a, exists := found.Next()
		b, isExpected := expected.Next()
		switch {
		case !exists && !isExpected:
			return nil
		case !exists:
			return fmt.Errorf("%w: revision %d is missing", ErrRestoreDiffers, b.Revision.Main)
		case !isExpected:
			return fmt.Errorf("%w: it has the additional revision %d", ErrRestoreDiffers, a.Revision.Main)
		}
		isSame, err := isSameChange(a, b)
		if err != nil {
			return err
		}
		if !isSame {
			return fmt.Errorf("%w: revision %d is another change; a lease has expired during the restore, or an event was lost: restore again", ErrRestoreDiffers, b.Revision.Main)
		}
	}
}

// isSameChange is true if both changes have the same effect, except for the lease.
func isSameChange(a, b inspect.Record) (bool, error) {
	if a.Revision != b.Revision || a.IsDeletion != b.IsDeletion {
		return false, nil
	}
	if bytes.Equal(a.Value, b.Value) {
		return true, nil
	}
	var values [2]mvccpb.KeyValue
	for i, record := range []inspect.Record{a, b} {
		if err := values[i].Unmarshal(record.Value); err != nil {
			return false, fmt.Errorf("%w: reading revision %d: %w", inspect.ErrCorrupt, record.Revision.Main, err)
		}
		values[i].Lease = 0
	}

	return isEqual(values[0], values[1]), nil
}

// hashOf returns a short replacement for a value.
func hashOf(value []byte) []byte {
	hash := sha256.Sum256(value)

	return hash[:]
}

func isEqual(a, b mvccpb.KeyValue) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) &&
		a.CreateRevision == b.CreateRevision && a.ModRevision == b.ModRevision && a.Version == b.Version && a.Lease == b.Lease
}
