// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// recordFor returns the record of an event in the database. A record of a deletion contains only the key.
func recordFor(event snapshots.Event, sub int64) (key, value []byte, err error) {
	content := *event.Event.Kv
	key = mvcc.RevToBytes(mvcc.Revision{Main: content.ModRevision, Sub: sub}, mvcc.NewRevBytes())
	if event.Event.Type == mvccpb.DELETE {
		key, content = append(key, 't'), mvccpb.KeyValue{Key: content.Key}
	}
	value, err = content.Marshal()
	if err != nil {
		return nil, nil, fmt.Errorf("writing revision %d: %w", event.Event.Kv.ModRevision, err)
	}

	return key, value, nil
}

// compareRevision returns ErrHistory unless the database contains exactly the events of a revision.
func compareRevision(bucket *bolt.Bucket, change []snapshots.Event) error {
	revision := change[0].Event.Kv.ModRevision
	cursor := bucket.Cursor()
	found, content := cursor.Seek(mvcc.RevToBytes(mvcc.Revision{Main: revision}, mvcc.NewRevBytes()))
	for sub, event := range change {
		key, value, err := recordFor(event, int64(sub))
		if err != nil {
			return err
		}
		if !bytes.Equal(found, key) || !bytes.Equal(content, value) {
			return fmt.Errorf("%w: revision %d is another one in the earlier snapshots; use a revision up to %d", ErrHistory, revision, revision-1)
		}
		found, content = cursor.Next()
	}
	if found != nil && mvcc.BytesToRev(found).Main == revision {
		return fmt.Errorf("%w: revision %d has more changes in the earlier snapshots; use a revision up to %d", ErrHistory, revision, revision-1)
	}

	return nil
}

// checkEvent returns ErrHistory unless an event continues the version of its key.
func (c *chain) checkEvent(event snapshots.Event) error {
	kv := event.Event.Kv
	before, exists := c.versions[string(kv.Key)]
	expected := version{create: kv.ModRevision, version: 1}
	if exists {
		expected = version{create: before.create, version: before.version + 1}
	}
	switch isDeletion := event.Event.Type == mvccpb.DELETE; {
	case isDeletion && !exists:
		return fmt.Errorf("%w: revision %d deletes a key with the prefix %q, which does not exist then; use a revision up to %d",
			ErrHistory, kv.ModRevision, prefixOf(string(kv.Key)), kv.ModRevision-1)
	case !isDeletion && (version{create: kv.CreateRevision, version: kv.Version}) != expected:
		return fmt.Errorf("%w: revision %d is version %d of a key with the prefix %q, and version %d is expected; use a revision up to %d",
			ErrHistory, kv.ModRevision, kv.Version, prefixOf(string(kv.Key)), expected.version, kv.ModRevision-1)
	default:
		return nil
	}
}
