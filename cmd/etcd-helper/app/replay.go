// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/replay"
)

// replayed is the result of a replay.
type replayed struct {
	replay.Result
	// StoreVerified is true if the hash is that of the live etcd.
	StoreVerified bool `json:"storeVerified,omitempty"`
}

// compared is the result of a comparison.
type compared struct {
	inspect.Result
	// RestoreVerified is true if the database that the sidecar restored has the same history.
	RestoreVerified bool `json:"restoreVerified"`
}

func newReplayCommand(log *zap.Logger) *cobra.Command {
	var (
		out     output
		request replay.Request
		at      string
		live    replay.Live
	)
	command := &cobra.Command{
		Use:   "replay --snapshots=DIR --output=FILE [--revision=REVISION | --time=TIME]",
		Short: "Create the database of a revision or a time from snapshots",
		Long: `Creates the database of a revision from a full snapshot and the delta snapshots after it. Each key has the revisions, the version and the
lease that it had in etcd, so that the hash is that of etcd. No lease expires meanwhile. Without a revision and a time, all events are
replayed. The result is JSON: revision, compactRevision, keys and hash as for inspect, and

  base, baseRevision, baseCompactRevision  the full snapshot and the revisions of its database
  deltas, events                           how many delta snapshots and events were replayed
  time                                     when the sidecar received the last replayed event
  storeVerified                            true if the hash is that of --live-hash

A time leads to the last revision that the sidecar had received then. The sidecar receives an event after etcd has committed it: usually
at once, and minutes later if it was restarted. A revision between two sets of snapshots is available only if the next full snapshot is not
compacted after it. Otherwise, the error lists the available revisions.

--live-hash compares the store with the live etcd. The hash and the compact revision are those that HashKV of etcd returned for
--live-revision. The replay may lead to a higher revision.

The database contains the leases of the full snapshot, and not those that etcd granted later. Their keys never expire in an etcd that
starts with the database.`,
		RunE: func(command *cobra.Command, _ []string) error {
			return out.run(command, func() (any, error) {
				request.Log = log
				if err := complete(command, &request, at, live); err != nil {
					return nil, err
				}
				result, err := replay.Replay(request)

				return replayed{Result: result, StoreVerified: request.Live != nil}, err
			})
		},
	}
	out.addTo(command)
	flags := command.Flags()
	flags.StringVar(&request.Snapshots, "snapshots", "", "Directory that contains snapshots of etcd-backup-restore.")
	flags.StringVar(&request.Output, "output", "", "New file for the database.")
	flags.Int64Var(&request.Revision, "revision", 0, "Revision of the database. 0: the highest one.")
	flags.StringVar(&at, "time", "", "Time of the database, for example 2026-11-25T22:27:36Z.")
	flags.BoolVar(&request.AllowOverlap, "allow-overlap", false, "Replay delta snapshots that contain the same events.")
	flags.Int64Var(&live.Revision, "live-revision", 0, "Revision for which HashKV of the live etcd returned the hash.")
	flags.Uint32Var(&live.Hash, "live-hash", 0, "Hash that HashKV of the live etcd returned for the revision.")
	flags.Int64Var(&live.CompactRevision, "live-compact-revision", 0, "Compact revision that HashKV of the live etcd returned. 0 or less: etcd was never compacted.")
	markRequired(command, "snapshots", "output")
	command.MarkFlagsMutuallyExclusive("revision", "time")
	command.MarkFlagsRequiredTogether("live-revision", "live-hash", "live-compact-revision")

	return command
}

// complete sets the fields of the request that need more than one flag.
func complete(command *cobra.Command, request *replay.Request, at string, live replay.Live) error {
	if _, err := os.Stat(request.Output); err == nil {
		return fmt.Errorf("--output: %s exists: use a new file", request.Output)
	}
	if request.Revision < 0 {
		return fmt.Errorf("--revision is %d: use a positive number", request.Revision)
	}
	if at != "" {
		parsed, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return fmt.Errorf("--time: %w; use a time in the form 2026-11-25T22:27:36Z", err)
		}
		request.Time = parsed
	}
	if command.Flags().Changed("live-hash") {
		live.CompactRevision = max(live.CompactRevision, 0)
		if live.Revision <= live.CompactRevision {
			return fmt.Errorf("--live-revision is %d, and --live-compact-revision is %d: use a revision that etcd has not compacted", live.Revision, live.CompactRevision)
		}
		request.Live = &live
	}

	return nil
}

func newCompareCommand(log *zap.Logger) *cobra.Command {
	var (
		out                output
		database, restored string
	)
	command := &cobra.Command{
		Use:   "compare --database=FILE --restored=DIR",
		Short: "Compare what the sidecar has restored with a replay of the same snapshots",
		Long: `Compares the data directory that the sidecar has restored with the database of a replay of the same snapshots. All revisions have to be the
same, except for the leases, which the sidecar drops. Up to the higher compact revision, only the keys that exist then are compared. The
sidecar restores all events: replay them without a revision and a time. The result is JSON: revision, compactRevision, keys and hash of the
replayed database, and

  restoreVerified  true

A lease of the full snapshot can expire during a restore. The sidecar can then skip an event without an error, and the command reports it.
It does not write to the databases.`,
		RunE: func(command *cobra.Command, _ []string) error {
			return out.run(command, func() (any, error) {
				return compareRestored(database, restored, inspect.Options{Timeout: out.timeout, Log: log})
			})
		},
	}
	out.addTo(command)
	command.Flags().StringVar(&database, "database", "", "File of the database that replay has created.")
	command.Flags().StringVar(&restored, "restored", "", "Data directory that the sidecar has restored, which contains member/snap/db.")
	markRequired(command, "database", "restored")

	return command
}

// compareRestored compares a restored data directory with a replayed database, and inspects the latter.
func compareRestored(database, restored string, options inspect.Options) (compared, error) {
	path, err := inspect.DatabaseIn(restored)
	if err != nil {
		return compared{}, err
	}
	if err := replay.Compare(path, database, options.Log); err != nil {
		return compared{}, err
	}
	result := compared{RestoreVerified: true}
	err = inspect.View(database, options, func(replayed *inspect.Database) (err error) {
		result.Result, err = replayed.Inspect()

		return err
	})

	return result, err
}
