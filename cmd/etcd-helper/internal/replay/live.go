// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// Live is what HashKV of the live etcd returned for a revision.
type Live struct {
	// Revision is that of the hash. The replay can lead to a higher one.
	Revision int64
	// CompactRevision is the revision to which etcd was compacted then. 0: it never was.
	CompactRevision int64
	// Hash of the key-value pairs.
	Hash uint32

	// allowsCompaction is true if the base may be a full snapshot of a compaction of the store.
	allowsCompaction bool
}

// errUnusableBase means that HashKV is not comparable after a replay of this full snapshot.
var errUnusableBase = errors.New("the full snapshot is not comparable")

// unusable returns why the database of a full snapshot does not lead to the hash of the live etcd.
//
// A database that is compacted further than etcd lacks revisions that etcd has counted. The compaction of the store restores snapshots. The
// sidecar then drops the leases of delta snapshots. Such a full snapshot is compacted at its own revision.
func (r Request) unusable(base Result) error {
	switch {
	case r.Live == nil:
		return nil
	case base.BaseCompactRevision > r.Live.CompactRevision, isOfCompaction(base) && !r.Live.allowsCompaction:
		return errUnusableBase
	default:
		return nil
	}
}

// isOfCompaction is true for a full snapshot that a compaction of the store has created. It is also true for one of an etcd that was compacted
// at its last revision.
func isOfCompaction(base Result) bool { return base.BaseCompactRevision == base.BaseRevision }

// fromLive replays a full snapshot after which HashKV is comparable. It prefers those of a live etcd.
func (r Request) fromLive(sets []snapshots.Set, target int64) (Result, error) {
	result, err := r.from(sets, target)
	if r.Live == nil || !errors.Is(err, ErrUnavailable) {
		return result, err
	}
	live := *r.Live
	live.allowsCompaction = true
	r.Live = &live
	result, err = r.from(sets, target)
	if errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w; the full snapshots must not be compacted after revision %d, or compare again after the next compaction of etcd", err, live.CompactRevision)
	}

	return result, err
}

// compareLive returns ErrHashDiffers unless the new database has the hash that the live etcd reported. After a full snapshot of a compaction, the
// difference can be the leases that the sidecar has dropped. The hash is then not comparable.
func (r Request) compareLive(result Result) error {
	if r.Live == nil {
		return nil
	}
	if r.Live.Revision > result.Revision {
		return fmt.Errorf("%w: the snapshots end at revision %d, and the hash is that of revision %d", ErrUnavailable, result.Revision, r.Live.Revision)
	}
	hash, err := hashKV(r.Output, *r.Live, r.Log)
	if err != nil {
		return err
	}
	if hash == r.Live.Hash {
		return nil
	}
	if isOfCompaction(result) {
		return fmt.Errorf("%w: HashKV at revision %d is %d, and etcd reported %d; %s was created by a compaction, which drops leases: compare again after the next full snapshot of etcd",
			ErrUnavailable, r.Live.Revision, hash, r.Live.Hash, result.Base)
	}

	return fmt.Errorf("%w: HashKV at revision %d with compact revision %d is %d, and etcd reported %d; create a full snapshot and compare again",
		ErrHashDiffers, r.Live.Revision, r.Live.CompactRevision, hash, r.Live.Hash)
}

// hashKV returns the hash of the database in a file as etcd would return it, if etcd were compacted as the live one.
func hashKV(path string, live Live, log *zap.Logger) (hash uint32, err error) {
	options := inspect.Options{Timeout: time.Second, CompactRevision: live.CompactRevision, Log: log}
	err = inspect.View(path, options, func(database *inspect.Database) (err error) {
		if _, found := database.Revisions(); found != live.CompactRevision {
			return fmt.Errorf("%w: the database is compacted to revision %d, and etcd to revision %d", ErrUnavailable, found, live.CompactRevision)
		}
		hash, err = database.Hash(live.Revision)

		return err
	})

	return hash, err
}
