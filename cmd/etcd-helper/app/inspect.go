// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/replay"
)

func newInspectCommand(log *zap.Logger) *cobra.Command {
	var (
		out                   output
		dataDir, dir, workDir string
	)
	command := &cobra.Command{
		Use:   "inspect {--data-dir=DIR | --snapshots=DIR}",
		Short: "Print what a data directory or the snapshots in a directory contain, in JSON",
		Long: `Prints what a data directory of etcd contains, in JSON:

  revision         highest revision in the database
  compactRevision  revision to which the database is compacted; omitted if it never was
  keys             number of keys that are not deleted at that revision
  hash             hash of the key-value pairs, as HashKV of etcd returns it for that revision
  consistentIndex  index of the last entry of the log that the database contains
  alarms           types of the raised alarms; omitted if there are none
  log              write-ahead log, omitted without one:
    clusterID, memberID  identity of the member, in hexadecimal digits
    lastTerm, lastIndex  term and index of the last entry; raft elects the member for which they are the highest
    term                 newest term that the member has seen
    commit               highest index that the member knows to be committed
    maxRevision          upper bound of the revision after all entries of the log
    discardedBytes       data after the last entry that can be read, which a loss of power or a damaged disk leaves
    voters               IDs of the voting members after all entries, in hexadecimal digits
    formerVoters         IDs of the voting members that entries above commit remove, which may not be committed
  logProblem       why the log cannot be read; the database is not affected

The command does not write to the data directory. It reads the database only while no other process has opened it.

If etcd was killed, its entries of the last 100 milliseconds or its last 10,000 operations are missing in the database. revision, keys
and hash do not count them, and maxRevision does. No entries are missing after etcd stopped by itself.

With --snapshots, the command replays all snapshots below a directory. For each full snapshot, from the oldest to the newest:

  full, baseRevision, baseCompactRevision  the full snapshot and the revisions of its database
  revision, time                           to which the delta snapshots lead, and when the sidecar received the last event
  keys, hash, alarms                       of the database at this revision
  deltas, deltaCount                       the delta snapshots with the numbers of their events, and of those with a lease
  problem                                  why no higher revision can be reached

The termination message omits details if it would be longer than 4096 bytes.`,
		RunE: func(command *cobra.Command, _ []string) error {
			return out.run(command, func() (any, error) {
				if dir != "" {
					report, err := replay.Inspect(dir, workDir, log)

					return &report, err
				}

				return inspect.Dir(dataDir, out.timeout, log)
			})
		},
	}
	out.addTo(command)
	flags := command.Flags()
	flags.StringVar(&dataDir, "data-dir", "", "Data directory of etcd, which contains member/snap/db.")
	flags.StringVar(&dir, "snapshots", "", "Directory that contains snapshots of etcd-backup-restore.")
	flags.StringVar(&workDir, "work-dir", os.TempDir(), "Existing directory for the databases of snapshots, one at a time.")
	command.MarkFlagsOneRequired("data-dir", "snapshots")
	command.MarkFlagsMutuallyExclusive("data-dir", "snapshots")

	return command
}
