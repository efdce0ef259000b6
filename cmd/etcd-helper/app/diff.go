// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/keys"
)

func newDiffCommand(log *zap.Logger) *cobra.Command {
	var (
		s     *source
		file  string
		other keys.Selection
	)
	command := &cobra.Command{
		Use:   "diff --database=FILE [--other-database=FILE] [--other-revision=REVISION] [PREFIX]",
		Short: "Print the keys that differ between two databases or revisions",
		Long: `Prints the keys with a prefix that differ between two databases, or between two revisions of a database. A key differs if its value differs,
or if it was deleted and created again. Each line of the format text begins with + for a key that only the other database contains, with -
for a key that it does not contain, or with < and > for both states of a changed key.
` + formatLong,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) > 0 {
				s.selection.Prefix = args[0]
			}

			return s.view(command, func(database *inspect.Database, out io.Writer) error {
				visit := func(change keys.Change) error { return s.writeChange(out, change) }
				if file == "" {
					return keys.Diff(database, database, s.selection, other, visit)
				}

				return inspect.View(file, inspect.Options{Timeout: s.timeout, Log: s.log}, func(second *inspect.Database) error {
					return keys.Diff(database, second, s.selection, other, visit)
				})
			})
		},
	}
	s = newSource(command, log).withFormat(command, "Format: text or json.")
	command.Flags().StringVar(&file, "other-database", "", "File of the other database. Empty: the same database.")
	command.Flags().Int64Var(&other.Revision, "other-revision", 0, "Revision of the keys in the other database. 0: the highest one.")

	return command
}

func (s *source) writeChange(out io.Writer, change keys.Change) error {
	if s.format == formatJSON {
		return json.NewEncoder(out).Encode(change)
	}
	signs := map[string][2]string{keys.Removed: {"-"}, keys.Added: {"", "+"}, keys.Changed: {"<", ">"}}[change.Change]
	for i, entry := range []*keys.Entry{change.Before, change.After} {
		if entry == nil {
			continue
		}
		if _, err := fmt.Fprintln(out, signs[i], textFor(*entry)); err != nil {
			return err
		}
	}

	return nil
}

// usage is a result that fits into a termination message without its smallest prefixes.
type usage struct{ keys.Usage }

// Shorten removes the smallest prefix.
func (u *usage) Shorten() bool {
	count := len(u.Prefixes)
	u.Usage.Shorten(max(count-1, 0))

	return count > 0
}

func newPrefixesCommand(log *zap.Logger) *cobra.Command {
	var (
		out               output
		dataDir, database string
		segments, limit   int
	)
	command := &cobra.Command{
		Use:   "prefixes {--data-dir=DIR | --database=FILE}",
		Short: "Print the prefixes of the keys that use the most space",
		Long: `Prints the prefixes of the keys that use the most space, in JSON:

  revision, compactRevision  as for inspect
  fileBytes                  size of the file, with the free space that a defragmentation removes
  bytes, historyBytes        sums of all prefixes
  prefixes                   the largest prefixes, each with
    prefix                   up to a slash; empty for keys without one
    keys, bytes              number of keys, and size of keys and values
    history, historyBytes    number and size of earlier versions and deletions, which a compaction removes
  others                     number of smaller prefixes

The command does not write to the database. It prints no complete keys and no values.`,
		RunE: func(command *cobra.Command, _ []string) error {
			return out.run(command, func() (any, error) {
				if segments < 1 || limit < 1 {
					return nil, fmt.Errorf("--segments is %d and --limit is %d: use positive numbers", segments, limit)
				}
				path := database
				if dataDir != "" {
					var err error
					if path, err = inspect.DatabaseIn(dataDir); err != nil {
						return nil, err
					}
				}
				found := &usage{}
				err := inspect.View(path, inspect.Options{Timeout: out.timeout, Log: log}, func(database *inspect.Database) (err error) {
					found.Usage, err = keys.Prefixes(database, segments, limit)

					return err
				})

				return found, err
			})
		},
	}
	out.addTo(command)
	flags := command.Flags()
	flags.StringVar(&dataDir, "data-dir", "", "Data directory of etcd, which contains member/snap/db.")
	flags.StringVar(&database, "database", "", "File of the database.")
	flags.IntVar(&segments, "segments", 2, "Number of path segments of a prefix.")
	flags.IntVar(&limit, "limit", 10, "Maximum number of prefixes.")
	command.MarkFlagsOneRequired("data-dir", "database")
	command.MarkFlagsMutuallyExclusive("data-dir", "database")

	return command
}
