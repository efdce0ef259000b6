// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// latest is the target of a replay of all events.
const latest = int64(0)

// revisionAt returns the highest revision that the sidecar had received at a time. All lower revisions are older, and the sidecar receives an
// event after etcd has committed it. The result is therefore never newer than the time if the clocks agree.
func revisionAt(sets []snapshots.Set, at time.Time) (int64, error) {
	revision := int64(0)
	for _, set := range sets {
		if isCreatedBefore(set.Full, at) {
			revision = max(revision, set.Full.Last)
		}
		for _, delta := range set.Deltas {
			if isCreatedBefore(delta, at) {
				revision = max(revision, delta.Last)

				continue
			}
			received, err := receivedAt(delta, at)
			if err != nil {
				return 0, err
			}
			revision = max(revision, received)
		}
	}
	if revision == 0 {
		return 0, fmt.Errorf("%w: no snapshot is older than %s; %s", ErrUnavailable, at.Format(time.RFC3339), available(sets))
	}

	if next := nextUnknown(sets, revision); next > 0 {
		return 0, fmt.Errorf("%w: at %s, the events between the revisions %d and %d are not in the store; %s", ErrUnavailable, at.Format(time.RFC3339), revision, next, available(sets))
	}

	return revision, nil
}

// nextUnknown returns the revision of the next full snapshot if no delta snapshot contains the event after a revision. When that event happened is then
// unknown. 0: a delta snapshot contains it, or no snapshot is newer.
func nextUnknown(sets []snapshots.Set, revision int64) int64 {
	next := int64(0)
	for _, set := range sets {
		if next == 0 && set.Full.Last > revision {
			next = set.Full.Last
		}
		for _, delta := range set.Deltas {
			if delta.First <= revision+1 && delta.Last > revision {
				return 0
			}
		}
	}

	return next
}

// isCreatedBefore is true if a snapshot contains only what is older than the time. Its name contains whole seconds.
func isCreatedBefore(file snapshots.File, at time.Time) bool {
	return !file.Created.Add(time.Second).After(at)
}

// receivedAt returns the highest revision of a delta snapshot that the sidecar had received at a time. 0: none.
func receivedAt(delta snapshots.File, at time.Time) (int64, error) {
	events, err := delta.Events()
	if err != nil {
		return 0, err
	}
	for i := len(events) - 1; i >= 0; i-- {
		if !events[i].Time.After(at) {
			return events[i].Event.Kv.ModRevision, nil
		}
	}

	return 0, nil
}

// available returns the revisions and times to which the snapshots lead, according to their names.
func available(sets []snapshots.Set) string {
	var points []string
	for _, set := range sets {
		last := set.Full
		for _, delta := range set.Deltas {
			if delta.First > last.Last+1 {
				break
			}
			last = delta
		}
		if first := set.Full; first.Last < last.Last {
			points = append(points, fmt.Sprintf("%d-%d (%s to %s)", first.Last, last.Last, first.Created.Format(time.RFC3339), last.Created.Format(time.RFC3339)))
		} else {
			points = append(points, fmt.Sprintf("%d (%s)", first.Last, first.Created.Format(time.RFC3339)))
		}
	}

	return "available revisions: " + strings.Join(points, ", ")
}
