// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/keys"
)

// Formats of keys.
const (
	formatText = "text"
	formatJSON = "json"
	formatRaw  = "raw"
)

// formatLong describes the formats of keys.
const formatLong = `
The format text has a line for each key: the key, its mod revision, its version, and the size of its value in bytes. With --values, the
quoted value follows. The format json has one JSON object in each line, with values in base64.

The command does not write to the database. Values of a kube-apiserver contain Secrets.`

// source contains the flags of the commands that read keys.
type source struct {
	database, format string
	timeout          time.Duration
	selection        keys.Selection
	log              *zap.Logger
}

// errLimit ends a list.
var errLimit = errors.New("limit")

func newSource(command *cobra.Command, log *zap.Logger) *source {
	s := &source{log: log}
	flags := command.Flags()
	flags.StringVar(&s.database, "database", "", "File of the database.")
	flags.Int64Var(&s.selection.Revision, "revision", 0, "Revision of the keys. 0: the highest one.")
	flags.BoolVar(&s.selection.WithValues, "values", false, "Print the values.")
	flags.DurationVar(&s.timeout, "timeout", 10*time.Second, "How long to wait while another process has opened the database. 0: without limit.")
	markRequired(command, "database")

	return s
}

// withFormat adds the flag for the format.
func (s *source) withFormat(command *cobra.Command, usage string) *source {
	command.Flags().StringVarP(&s.format, "output", "o", formatText, usage)

	return s
}

// view reads the database, and writes to the output in larger blocks.
func (s *source) view(command *cobra.Command, read func(*inspect.Database, io.Writer) error) error {
	if s.format != formatText && s.format != formatJSON && (s.format != formatRaw || command.Name() != "get") {
		return fmt.Errorf("--output=%s is not supported: use text or json", s.format)
	}
	out := bufio.NewWriter(command.OutOrStdout())
	err := inspect.View(s.database, inspect.Options{Timeout: s.timeout, Log: s.log}, func(database *inspect.Database) error { return read(database, out) })

	return errors.Join(err, out.Flush())
}

func (s *source) write(out io.Writer, entry keys.Entry) error {
	switch s.format {
	case formatJSON:
		return json.NewEncoder(out).Encode(entry)
	case formatRaw:
		_, err := out.Write(*entry.Value)

		return err
	default:
		_, err := fmt.Fprintln(out, textFor(entry))

		return err
	}
}

// textFor returns a key as a line.
func textFor(entry keys.Entry) string {
	text := fmt.Sprintf("%s\t%d\t%d\t%d", entry.Name(), entry.ModRevision, entry.Version, entry.Bytes)
	if entry.Value != nil {
		text += "\t" + strconv.Quote(string(*entry.Value))
	}

	return text
}

func newGetCommand(log *zap.Logger) *cobra.Command {
	var s *source
	command := &cobra.Command{
		Use:   "get --database=FILE KEY",
		Short: "Print a key of a database",
		Long:  "Prints a key of a database. The format raw is the value only." + formatLong,
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			s.selection.WithValues = s.selection.WithValues || s.format == formatRaw

			return s.view(command, func(database *inspect.Database, out io.Writer) error {
				entry, err := keys.Get(database, args[0], s.selection)
				if err != nil {
					return err
				}

				return s.write(out, entry)
			})
		},
	}
	s = newSource(command, log).withFormat(command, "Format: text, json or raw.")

	return command
}

func newListCommand(log *zap.Logger) *cobra.Command {
	var (
		s     *source
		limit int
	)
	command := &cobra.Command{
		Use:   "list --database=FILE [PREFIX]",
		Short: "Print the keys of a database",
		Long:  "Prints the keys of a database with a prefix, or all keys." + formatLong,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.list(command, args, limit)
		},
	}
	s = newSource(command, log).withFormat(command, "Format: text or json.")
	command.Flags().IntVar(&limit, "limit", 0, "Maximum number of keys. 0: all.")

	return command
}

// list writes the keys with the prefix in the arguments.
func (s *source) list(command *cobra.Command, args []string, limit int) error {
	if len(args) > 0 {
		s.selection.Prefix = args[0]
	}
	count := 0
	err := s.view(command, func(database *inspect.Database, out io.Writer) error {
		return keys.ForEach(database, s.selection, func(entry keys.Entry) error {
			if limit > 0 && count == limit {
				return errLimit
			}
			count++

			return s.write(out, entry)
		})
	})
	if errors.Is(err, errLimit) {
		return nil
	}

	return err
}

func newExportCommand(log *zap.Logger) *cobra.Command {
	var s *source
	command := &cobra.Command{
		Use:   "export --database=FILE [PREFIX]",
		Short: "Print the keys of a database with their values in JSON",
		Long: `Prints the keys of a database with a prefix, or all keys, with their values. Each line is a JSON object: key, or keyBytes in base64 if the
key is not text, createRevision, modRevision, version, lease, bytes, and value in base64.

The command does not write to the database. Values of a kube-apiserver contain Secrets.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			s.format, s.selection.WithValues = formatJSON, true

			return s.list(command, args, 0)
		},
	}
	s = newSource(command, log)
	if err := command.Flags().MarkHidden("values"); err != nil {
		panic(err)
	}

	return command
}
