// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package modify changes databases that no etcd has opened: it increases the revision, and removes alarms.
//
// What may not live here: changes of keys and values.
package modify

import (
	"errors"
	"fmt"
	"math"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
)

// Bump increases the revision of the database in a file, and marks all earlier revisions as compacted. It returns the new revision. The keys do
// not change.
//
// After a loss of writes, etcd uses their revisions for other writes. A client that continues a watch would miss these. After a bump, etcd
// reports to such a client that its revision was compacted, and the client reads everything again.
func Bump(path string, by int64, timeout time.Duration, log *zap.Logger) (int64, error) {
	if by <= 0 {
		return 0, fmt.Errorf("the revision cannot be increased by %d: use a positive number", by)
	}
	revision := int64(0)
	err := inspect.View(path, inspect.Options{Timeout: timeout, Log: log}, func(database *inspect.Database) error {
		revision, _ = database.Revisions()

		return nil
	})
	if err != nil {
		return 0, err
	}
	if revision > math.MaxInt64/2-by {
		return 0, fmt.Errorf("revision %d cannot be increased by %d: use a smaller number", revision, by)
	}
	revision += by

	return revision, update(path, timeout, func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(schema.Meta.Name())
		if err != nil {
			return err
		}
		bumped := mvcc.RevToBytes(mvcc.Revision{Main: revision}, mvcc.NewRevBytes())
		// The highest revision of the records is that of the database. The record has no key, and thus no effect.
		if err := tx.Bucket(schema.Key.Name()).Put(bumped, nil); err != nil {
			return err
		}

		return meta.Put(schema.ScheduledCompactKeyName, bumped)
	})
}

// ClearAlarms removes all alarms from the database in a file, and returns their number. A restored etcd with an alarm rejects writes.
func ClearAlarms(path string, timeout time.Duration, log *zap.Logger) (int, error) {
	count := 0
	// etcd may be unable to read the file. bbolt would panic.
	err := inspect.View(path, inspect.Options{Timeout: timeout, Log: log}, func(database *inspect.Database) error {
		alarms, err := database.Alarms()
		count = len(alarms)

		return err
	})
	if err != nil || count == 0 {
		return 0, err
	}

	return count, update(path, timeout, func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket(schema.Alarm.Name()); err != nil {
			return err
		}
		_, err := tx.CreateBucket(schema.Alarm.Name())

		return err
	})
}

// update writes to the database in a file.
func update(path string, timeout time.Duration, write func(*bolt.Tx) error) error {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: timeout, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("opening the database: another process has opened %s, and did not close it for %s", path, timeout)
	case err != nil:
		return fmt.Errorf("opening the database: %w", err)
	}
	if err := errors.Join(db.Update(write), db.Close()); err != nil {
		return fmt.Errorf("writing to %s: %w", path, err)
	}

	return nil
}
