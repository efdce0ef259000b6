// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
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
