// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/extract"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/modify"
)

func newExtractCommand(log *zap.Logger, now func() time.Time) *cobra.Command {
	var (
		out     output
		request extract.Request
	)
	command := &cobra.Command{
		Use:   "extract {--data-dir=DIR | --database=FILE} --store-dir=DIR",
		Short: "Create a full snapshot from the data directory of a member that does not run",
		Long: `Creates a full snapshot in the format of etcd-backup-restore from the data directory of a member that does not run. It contains all entries
of the write-ahead log, also those above the commit index: a quorum may have confirmed them. etcd with force-new-cluster drops them. A
write that no quorum has confirmed can therefore be in the snapshot. The command does not write to the data directory.

The snapshot is written with --store-dir as the directory v2 of a backup store. The sidecar can restore it, and copy it to another store.
The result is JSON: revision, compactRevision, keys and hash as for inspect, and

  snapshot             name of the full snapshot
  entries              entries of the log that the database did not contain
  uncommitted          those of them above the commit index
  lastTerm, lastIndex  term and index of the last entry
  discardedBytes       data after the last entry that can be read, which a loss of power or a damaged disk leaves
  extractedRevision    highest revision before the bump
  clearedAlarms        number of removed alarms

After a loss of writes, use --bump=1000000000. It marks all earlier revisions as compacted, so that the watch caches of kube-apiservers and
other clients notice the loss. A snapshot of a database with an alarm starts an etcd that rejects writes: use --clear-alarms.`,
		RunE: func(command *cobra.Command, _ []string) error {
			return out.run(command, func() (any, error) {
				request.Timeout, request.Now, request.Log = out.timeout, now(), log

				return extract.Snapshot(request)
			})
		},
	}
	out.addTo(command)
	flags := command.Flags()
	flags.StringVar(&request.DataDir, "data-dir", "", "Data directory of etcd, which contains member/snap/db.")
	flags.StringVar(&request.Database, "database", "", "File of a database without a write-ahead log.")
	flags.BoolVar(&request.SkipLog, "skip-log", false, "Ignore the write-ahead log. The last writes before etcd was killed are lost.")
	flags.StringVar(&request.Store, "store-dir", "", "Directory for the snapshot. It is created if it does not exist.")
	flags.StringVar(&request.Work, "work-dir", os.TempDir(), "Existing directory for a copy of the database.")
	flags.Int64Var(&request.Bump, "bump", 0, "Number by which the revision is increased.")
	flags.Int64Var(&request.BumpBelow, "bump-below", 0, "Revision from which on --bump does not apply, because an earlier command has applied it. 0: it always applies.")
	flags.Int64Var(&request.MinRevision, "min-revision", 0, "Lowest revision before the bump with which a snapshot is written.")
	flags.BoolVar(&request.ClearAlarms, "clear-alarms", false, "Remove all alarms.")
	flags.BoolVar(&request.Gzip, "gzip", false, "Compress the snapshot.")
	markRequired(command, "store-dir")
	command.MarkFlagsOneRequired("data-dir", "database")
	command.MarkFlagsMutuallyExclusive("data-dir", "database")

	return command
}

func newBumpCommand(log *zap.Logger) *cobra.Command {
	var (
		out      output
		database string
		by       int64
	)
	command := &cobra.Command{
		Use:   "bump --database=FILE --by=NUMBER",
		Short: "Increase the revision of a database, and mark all earlier revisions as compacted",
		Long: `Increases the revision of a database, and marks all earlier revisions as compacted. The keys do not change. Clients that continue a watch
at an earlier revision, or at a revision that was lost, then read everything again. The command changes the file. The result is JSON: revision.`,
		RunE: func(command *cobra.Command, _ []string) error {
			return out.run(command, func() (any, error) {
				revision, err := modify.Bump(database, by, out.timeout, log)

				return map[string]int64{"revision": revision}, err
			})
		},
	}
	out.addTo(command)
	command.Flags().StringVar(&database, "database", "", "File of the database.")
	command.Flags().Int64Var(&by, "by", 0, "Number by which the revision is increased, for example 1000000000.")
	markRequired(command, "database", "by")

	return command
}

func newClearAlarmsCommand(log *zap.Logger) *cobra.Command {
	var (
		out      output
		database string
	)
	command := &cobra.Command{
		Use:   "clear-alarms --database=FILE",
		Short: "Remove all alarms from a database",
		Long:  "Removes all alarms from a database. An etcd with an alarm rejects writes. The command changes the file. The result is JSON: clearedAlarms.",
		RunE: func(command *cobra.Command, _ []string) error {
			return out.run(command, func() (any, error) {
				count, err := modify.ClearAlarms(database, out.timeout, log)

				return map[string]int{"clearedAlarms": count}, err
			})
		},
	}
	out.addTo(command)
	command.Flags().StringVar(&database, "database", "", "File of the database.")
	markRequired(command, "database")

	return command
}
