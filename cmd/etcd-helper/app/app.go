// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package app contains the commands of etcd-helper.
package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
)

// Exit codes of the process. It exits with code 2 if it panics.
const (
	// ExitOK means that the command succeeded.
	ExitOK = 0
	// ExitFailed means that the flags are wrong, or that the database cannot be opened or read. Another attempt can succeed.
	ExitFailed = 1
	// ExitNoDatabase means that the data directory contains files, but no database, or an empty one.
	ExitNoDatabase = 3
	// ExitCorrupt means that etcd cannot read the database.
	ExitCorrupt = 4
	// ExitNoFiles means that the data directory does not exist, or that it contains no files.
	ExitNoFiles = 5
)

// maxMessageBytes is the maximum size of a termination message in bytes. The kubelet ignores the end of a longer one.
const maxMessageBytes = 4096

// version is the version of the build. hack/build.sh sets it.
var version = "unknown"

// Run runs the command with these arguments. It returns the exit code.
func Run(out, errOut io.Writer, args []string) int {
	command := &cobra.Command{
		Use:           "etcd-helper",
		Short:         "Inspect the database of an etcd member",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.CompletionOptions.DisableDefaultCmd = true
	command.AddCommand(newInspectCommand(errOut))
	command.SetOut(out)
	command.SetErr(errOut)
	command.SetArgs(args)

	err := command.Execute()
	if err != nil {
		fmt.Fprintln(errOut, "etcd-helper:", err)
	}

	return exitCode(err)
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, inspect.ErrNoDatabase):
		return ExitNoDatabase
	case errors.Is(err, inspect.ErrCorrupt):
		return ExitCorrupt
	case errors.Is(err, inspect.ErrNoFiles):
		return ExitNoFiles
	default:
		return ExitFailed
	}
}

func newInspectCommand(errOut io.Writer) *cobra.Command {
	var (
		dataDir, messagePath string
		timeout              time.Duration
	)
	command := &cobra.Command{
		Use:   "inspect --data-dir=DIR",
		Short: "Print the revision, the number of keys and the hash of a database in JSON",
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
  logProblem       why the log cannot be read; the database is not affected

The command does not write to the data directory. It reads the database only while no other process has opened it.

If etcd was killed, its entries of the last 100 milliseconds or its last 10,000 operations are missing in the database. revision, keys
and hash do not count them, and maxRevision does. No entries are missing after etcd stopped by itself.

Exit codes: 0 success, 1 wrong flags or the database cannot be opened, 2 panic, 3 no database, 4 the database is corrupt, 5 no files.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			result, err := inspect.Dir(dataDir, timeout, newLog(errOut))
			message, err := messageFor(result, err)
			if messagePath != "" {
				err = errors.Join(err, writeMessage(messagePath, message))
			}
			if err == nil {
				fmt.Fprintln(command.OutOrStdout(), message)
			}

			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&dataDir, "data-dir", "", "Data directory of etcd, which contains member/snap/db.")
	flags.DurationVar(&timeout, "timeout", 10*time.Second, "How long to wait while another process has opened the database. 0: without limit.")
	flags.StringVar(&messagePath, "termination-message-path", "", "File for the result or the error, for example /dev/termination-log. Empty: none.")
	if err := command.MarkFlagRequired("data-dir"); err != nil {
		panic(err) // the flag is defined above
	}

	return command
}

// messageFor returns the result in JSON, or the text of the error.
func messageFor(result any, err error) (string, error) {
	if err != nil {
		return err.Error(), err
	}
	content, err := json.Marshal(result)
	if err != nil {
		return "", fmt.Errorf("writing the result: %w", err)
	}

	return string(content), nil
}

// writeMessage writes into the existing file of the kubelet, which the user of the container cannot replace.
func writeMessage(path, message string) error {
	if len(message) > maxMessageBytes {
		message = message[:maxMessageBytes]
	}
	if err := os.WriteFile(path, []byte(message), 0o600); err != nil {
		return fmt.Errorf("writing the termination message: %w", err)
	}

	return nil
}

// newLog returns a log for the warnings of etcd's packages.
func newLog(out io.Writer) *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(out), zapcore.WarnLevel))
}
