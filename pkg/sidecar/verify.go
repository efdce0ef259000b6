// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/wait"
)

// VerifiedFullSnapshot takes a full snapshot and verifies it. It calls revision, a quorum read of the etcd revision, before it
// requests the snapshot. Afterwards the newest full snapshot in the store must contain that revision. It returns this
// snapshot, which is usually the one that it took.
func VerifiedFullSnapshot(ctx context.Context, client Client, revision func(context.Context) (int64, error)) (Snapshot, error) {
	acknowledged, err := revision(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("reading etcd's revision: %w", err)
	}
	taken, err := client.FullSnapshot(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	latest, err := client.LatestSnapshots(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("verifying full snapshot %s: %w", taken.Name, err)
	}
	switch newest := latest.Full; {
	case newest == nil:
		return Snapshot{}, fmt.Errorf("verifying full snapshot %s: the store holds none", taken.Name)
	case newest.Name != taken.Name && newest.CreatedAt.Before(taken.CreatedAt):
		return Snapshot{}, fmt.Errorf("verifying full snapshot %s: the newest in the store is %s", taken.Name, newest.Name)
	case newest.LastRevision < acknowledged:
		return Snapshot{}, fmt.Errorf("verifying full snapshot %s: it ends with revision %d, and etcd was at %d before", newest.Name, newest.LastRevision, acknowledged)
	default:
		return *newest, nil
	}
}

// ErrAnotherFullSnapshot means that another full snapshot than the expected one is the newest in the store.
var ErrAnotherFullSnapshot = errors.New("another full snapshot was taken meanwhile")

// CompleteSnapshot makes the store contain every write. rejectWrites makes etcd reject all writes and returns the revision of the last one. The
// full snapshot was taken before: one that is taken while etcd rejects writes contains the rejection. A delta snapshot adds the writes after
// it. retry has the number of attempts, at least 1, and the pauses between them: the sidecar receives the last writes with a delay. Returns the
// revision of the last write, or why the store does not contain it. If another full snapshot was taken, the error is ErrAnotherFullSnapshot.
func CompleteSnapshot(ctx context.Context, client Client, full Snapshot, rejectWrites func(context.Context) (int64, error), retry wait.Backoff) (int64, error) {
	last, err := rejectWrites(ctx)
	if err != nil {
		return 0, err
	}
	isAnother := false
	if waitErr := wait.ExponentialBackoffWithContext(ctx, retry, func(ctx context.Context) (bool, error) {
		isAnother, err = storeWritesUpTo(ctx, client, full, last)

		return err == nil || isAnother, nil
	}); err == nil {
		err = waitErr // the context had ended before the first attempt
	}
	if err != nil {
		return 0, err
	}

	return last, nil
}

// storeWritesUpTo takes a delta snapshot if the store does not contain all writes up to the revision. The error says why it does not contain them.
// The first result is true if another full snapshot was taken, so that another attempt would fail too.
func storeWritesUpTo(ctx context.Context, client Client, full Snapshot, last int64) (bool, error) {
	latest, err := client.LatestSnapshots(ctx)
	if err == nil && latest.Since(last) == nil {
		if _, err = client.DeltaSnapshot(ctx); err == nil {
			latest, err = client.LatestSnapshots(ctx)
		}
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("storing the writes after full snapshot %s, etcd is at revision %d: %w", full.Name, last, err)
	case latest.Full == nil || latest.Full.Name != full.Name:
		return true, fmt.Errorf("storing the writes after full snapshot %s: %w", full.Name, ErrAnotherFullSnapshot)
	case latest.Since(last) == nil:
		return false, fmt.Errorf("storing the writes after full snapshot %s: the store ends with revision %d, and etcd is at revision %d", full.Name, latest.LastRevision(), last)
	default:
		return false, nil
	}
}
