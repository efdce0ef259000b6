// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// Request is what to replay.
type Request struct {
	// Snapshots is the directory with the snapshots.
	Snapshots string
	// Output is the file of the new database.
	Output string
	// Revision is the revision of the new database. 0: see Time.
	Revision int64
	// Time is when the sidecar had received the last event of the new database. Zero: all events are replayed.
	Time time.Time
	// AllowOverlap is true if events may be in two delta snapshots. They must be the same.
	AllowOverlap bool
	// Live is what the live etcd reported about a revision. Nil: nothing to compare with.
	Live *Live
	// Log receives the warnings of etcd's packages.
	Log *zap.Logger
}

// Result is what was replayed, in its form in JSON.
type Result struct {
	inspect.Result
	// Base is the name of the full snapshot. BaseRevision and BaseCompactRevision are those of its database.
	Base                string `json:"base"`
	BaseRevision        int64  `json:"baseRevision"`
	BaseCompactRevision int64  `json:"baseCompactRevision,omitempty"`
	// Deltas and Events are the numbers of delta snapshots and events that were replayed.
	Deltas int `json:"deltas"`
	Events int `json:"events"`
	// Time is when the sidecar received the last replayed event. Nil: none was replayed.
	Time *time.Time `json:"time,omitempty"`
}

// Replay creates the database of a revision. Each key-value pair has the revisions, version and lease that it had in etcd. Its HashKV is that of
// etcd at this revision. The database contains the leases of the full snapshot, without those that etcd granted later.
//
// The errors are those of this package and snapshots.ErrDamaged. The output exists only after a success, and with ErrHashDiffers.
func Replay(request Request) (Result, error) {
	sets, err := snapshots.Sets(request.Snapshots)
	if err != nil {
		return Result{}, err
	}
	target := request.Revision
	if !request.Time.IsZero() {
		if target, err = revisionAt(sets, request.Time); err != nil {
			return Result{}, err
		}
	}
	result, err := request.fromLive(sets, target)
	if err != nil {
		return Result{}, err
	}
	if err := inspectOutput(request, &result); err != nil {
		return Result{}, err
	}

	err = request.compareLive(result)
	if err != nil && !errors.Is(err, ErrHashDiffers) {
		err = errors.Join(err, os.Remove(request.Output))
	}

	return result, err
}

// from replays the newest full snapshot that leads to the target. If none does, the next full snapshot does if it is not compacted after the
// target.
func (r Request) from(sets []snapshots.Set, target int64) (Result, error) {
	next := 0
	for i := len(sets) - 1; i >= 0; i-- {
		if target != latest && sets[i].Full.Last > target {
			continue
		}
		result, err := r.fromSet(sets[i:], target)
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, errUnusableBase) {
			return result, err
		}
		if errors.Is(err, ErrUnavailable) && result.BaseRevision <= target {
			next = i + 1

			break // an earlier snapshot does not lead to it either
		}
	}
	if next < len(sets) && target != latest {
		if result, err := r.truncated(sets[next], target); !errors.Is(err, ErrUnavailable) && !errors.Is(err, errUnusableBase) {
			return result, err
		}
	}

	return Result{}, fmt.Errorf("%w: revision %d; %s", ErrUnavailable, target, available(sets))
}

// fromSet replays the delta snapshots after the full snapshot of the first set. They can also be after later full snapshots. The result with
// ErrUnavailable has the revision of the base.
func (r Request) fromSet(sets []snapshots.Set, target int64) (result Result, err error) {
	chain, result, err := r.open(sets[0].Full)
	if err != nil {
		return result, err
	}
	defer func() { err = r.close(chain, err) }()
	if target != latest && chain.revision > target {
		return result, ErrUnavailable
	}
	for i, set := range sets {
		for _, delta := range set.Deltas {
			if target != latest && chain.revision >= target {
				return result, nil
			}
			err := chain.addTo(&result, delta, target)
			if i > 0 && errors.Is(err, ErrGap) {
				return result, ErrUnavailable // only the full snapshot in between contains the missing events
			}
			if err != nil {
				return result, err
			}
		}
	}
	if target != latest && chain.revision < target {
		return result, ErrUnavailable
	}

	return result, nil
}

// truncated removes what is newer than the target from the database of a full snapshot.
func (r Request) truncated(set snapshots.Set, target int64) (result Result, err error) {
	chain, result, err := r.open(set.Full)
	if err != nil {
		return result, err
	}
	defer func() { err = r.close(chain, err) }()
	if target < max(chain.baseCompactRevision, 1) || target > chain.revision {
		return result, ErrUnavailable
	}

	return result, chain.truncate(target)
}

// open creates the output with the database of a full snapshot.
func (r Request) open(full snapshots.File) (*chain, Result, error) {
	result := Result{Base: filepath.Base(full.Path)}
	if err := full.Database(r.Output); err != nil {
		return nil, result, err
	}
	opened, err := newChain(full, r)
	if err != nil {
		return nil, result, errors.Join(err, os.Remove(r.Output))
	}
	result.BaseRevision, result.BaseCompactRevision = opened.baseRevision, opened.baseCompactRevision
	if reason := r.unusable(result); reason != nil {
		return nil, result, r.close(opened, reason)
	}

	return opened, result, nil
}

// close closes the output. If the replay has failed, it removes the output.
func (r Request) close(opened *chain, failure error) error {
	err := errors.Join(failure, opened.close())
	if err == nil {
		return nil
	}
	if removed := os.Remove(r.Output); removed != nil {
		return errors.Join(err, removed)
	}
	if failure != nil {
		return failure
	}

	return err
}

// inspectOutput inspects the new database.
func inspectOutput(request Request, result *Result) error {
	return inspect.View(request.Output, inspect.Options{Timeout: time.Second, Log: request.Log}, func(database *inspect.Database) (err error) {
		result.Result, err = database.Inspect()

		return err
	})
}
