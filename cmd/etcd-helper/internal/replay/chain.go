// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// maxClockSkew is how much the clocks of two sidecars may differ.
const maxClockSkew = time.Minute

// chain is a database to which events are added.
type chain struct {
	db   *bolt.DB
	full snapshots.File
	// baseRevision and baseCompactRevision are those of the full snapshot.
	baseRevision, baseCompactRevision int64
	// revision is the highest one in the database.
	revision int64
	// previous is the last delta snapshot that was replayed. Nil: none.
	previous *snapshots.File
	// versions are the keys that exist at the revision.
	versions     map[string]version
	allowOverlap bool
}

// version is the state of a key that its next event continues.
type version struct{ create, version int64 }

// newChain opens the database of a full snapshot.
func newChain(full snapshots.File, r Request) (*chain, error) {
	c := &chain{full: full, versions: map[string]version{}, allowOverlap: r.AllowOverlap}
	err := inspect.View(r.Output, inspect.Options{Timeout: time.Second, Log: r.Log}, func(database *inspect.Database) error {
		c.revision, c.baseCompactRevision = database.Revisions()
		c.baseRevision = c.revision
		clear(c.versions)

		return database.ForEachRecord(0, c.add)
	})
	if err != nil {
		return nil, fmt.Errorf("full snapshot %s: %w", filepath.Base(full.Path), err)
	}
	// The database is a copy, which is written to the disk when it is complete.
	c.db, err = bolt.Open(r.Output, 0o600, &bolt.Options{Timeout: time.Second, NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("opening the new database: %w", err)
	}

	return c, nil
}

// add adds a record to the versions of the keys.
func (c *chain) add(record inspect.Record) error {
	value := mvccpb.KeyValue{}
	if err := value.Unmarshal(record.Value); err != nil {
		return fmt.Errorf("%w: reading revision %d: %w", inspect.ErrCorrupt, record.Revision.Main, err)
	}
	if record.IsDeletion {
		delete(c.versions, string(value.Key))
	} else {
		c.versions[string(value.Key)] = version{create: value.CreateRevision, version: value.Version}
	}

	return nil
}

func (c *chain) close() error { return errors.Join(c.db.Sync(), c.db.Close()) }

// addTo adds the events of a delta snapshot up to the target, and counts them in the result.
func (c *chain) addTo(result *Result, delta snapshots.File, target int64) error {
	last, count, err := c.replay(delta, target)
	if err == nil && count > 0 {
		result.Deltas, result.Events, result.Time = result.Deltas+1, result.Events+count, &last
	}

	return err
}

// replay adds the events of a delta snapshot up to the target. It returns when the sidecar received the last added event, and the number of
// added events.
func (c *chain) replay(delta snapshots.File, target int64) (last time.Time, count int, err error) {
	if err := c.check(delta); err != nil {
		return last, 0, err
	}
	events, err := delta.Events()
	if err != nil {
		return last, 0, err
	}
	if len(events) == 0 || events[len(events)-1].Event.Kv.ModRevision != delta.Last {
		return last, 0, fmt.Errorf("%w: the last event of %s is not that of revision %d", ErrGap, filepath.Base(delta.Path), delta.Last)
	}
	err = c.db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(schema.Key.Name())
		bucket.FillPercent = 0.9 // the keys increase
		for len(events) > 0 && (target == latest || events[0].Event.Kv.ModRevision <= target) {
			change := firstRevision(events)
			isNew, err := c.apply(bucket, change)
			if err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(delta.Path), err)
			}
			if events = events[len(change):]; isNew {
				last, count = change[len(change)-1].Time, count+len(change)
			}
		}

		return nil
	})
	if delta.Last > c.baseRevision {
		c.previous = &delta
	}

	return last, count, err
}

// firstRevision returns the events of the first revision. Each event is a sub-revision.
func firstRevision(events []snapshots.Event) []snapshots.Event {
	for i := range events {
		if events[i].Event.Kv.ModRevision != events[0].Event.Kv.ModRevision {
			return events[:i]
		}
	}

	return events
}

// check compares the name of a delta snapshot with what has been replayed.
func (c *chain) check(delta snapshots.File) error {
	name := filepath.Base(delta.Path)
	isOlder := delta.Created.Add(maxClockSkew).Before(c.full.Created)
	switch {
	case delta.First > c.baseRevision && isOlder:
		return fmt.Errorf("%w: %s is older than %s, and has higher revisions: etcd lost data in between; use a revision up to %d",
			ErrHistory, name, filepath.Base(c.full.Path), c.revision)
	case delta.First > c.revision+1:
		return fmt.Errorf("%w: revisions %d to %d are in no snapshot before %s; use a revision up to %d, or a newer full snapshot",
			ErrGap, c.revision+1, delta.First-1, name, c.revision)
	case c.previous != nil && delta.First <= c.previous.Last && !c.allowOverlap:
		return fmt.Errorf("%w: %s and %s contain revisions %d to %d; create a full snapshot, or allow the overlap for a replay",
			ErrOverlap, filepath.Base(c.previous.Path), name, delta.First, min(delta.Last, c.previous.Last))
	default:
		return nil
	}
}

// apply adds the events of a revision. It returns false if the database already contains them.
func (c *chain) apply(bucket *bolt.Bucket, change []snapshots.Event) (bool, error) {
	revision := change[0].Event.Kv.ModRevision
	switch {
	case revision <= c.baseCompactRevision:
		return false, nil // the database no longer contains all of them
	case revision <= c.revision:
		return false, compareRevision(bucket, change)
	case revision > c.revision+1:
		return false, fmt.Errorf("%w: revision %d follows revision %d; use a revision up to %d", ErrGap, revision, c.revision, c.revision)
	}
	for sub, event := range change {
		if err := c.checkEvent(event); err != nil {
			return false, err
		}
		key, value, err := recordFor(event, int64(sub))
		if err != nil {
			return false, err
		}
		if err := bucket.Put(key, value); err != nil {
			return false, fmt.Errorf("writing revision %d: %w", revision, err)
		}
		if err := c.add(inspect.Record{IsDeletion: mvcc.IsTombstone(key), Value: value}); err != nil {
			return false, err
		}
	}
	c.revision = revision

	return true, nil
}

// truncate removes the revisions above the target.
func (c *chain) truncate(target int64) error {
	c.revision = target

	return c.db.Update(func(tx *bolt.Tx) error {
		cursor := tx.Bucket(schema.Key.Name()).Cursor()
		from := mvcc.RevToBytes(mvcc.Revision{Main: target + 1}, mvcc.NewRevBytes())
		for key, _ := cursor.Seek(from); key != nil; key, _ = cursor.Seek(from) {
			if err := cursor.Delete(); err != nil {
				return fmt.Errorf("removing the revisions after %d: %w", target, err)
			}
		}

		return nil
	})
}
