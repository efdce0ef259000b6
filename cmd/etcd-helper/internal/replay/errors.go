// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package replay creates the database of an earlier revision from a full snapshot and the delta snapshots after it, without etcd. No lease
// expires meanwhile, and no revision is skipped. It compares databases with what etcd reported, and with what the sidecar restored.
//
// What may not live here: connections, and decisions about what was found.
package replay

import "errors"

var (
	// ErrGap means that events between two snapshots are missing.
	ErrGap = errors.New("events are missing")
	// ErrOverlap means that two delta snapshots contain the same events. A sidecar that became the leader can cause it. Some versions of the
	// sidecar cannot restore such snapshots.
	ErrOverlap = errors.New("delta snapshots overlap")
	// ErrHistory means that an event does not continue the data before it. The snapshots are from before and after a loss of data, or an
	// event is missing.
	ErrHistory = errors.New("the snapshots contain different histories")
	// ErrUnavailable means that no snapshots lead to the revision or time.
	ErrUnavailable = errors.New("the snapshots do not lead to this point")
	// ErrHashDiffers means that the keys and values are not those of the live etcd.
	ErrHashDiffers = errors.New("the database differs from the live etcd")
	// ErrRestoreDiffers means that the sidecar restored something else than the snapshots contain.
	ErrRestoreDiffers = errors.New("the restored database differs from the snapshots")
)
