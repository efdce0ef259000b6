// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package app contains the commands of etcd-helper.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/extract"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/keys"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/raftlog"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/replay"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// Exit codes of the process. It exits with code 2 if it panics.
const (
	// ExitOK means that the command succeeded.
	ExitOK = 0
	// ExitFailed means that the flags are wrong, or that a file cannot be opened, read or written. Another attempt can succeed.
	ExitFailed = 1
	// ExitNoDatabase means that the data directory contains files, but no database, or an empty one.
	ExitNoDatabase = 3
	// ExitCorrupt means that etcd cannot read the database.
	ExitCorrupt = 4
	// ExitNoFiles means that the data directory does not exist, or that it contains no files.
	ExitNoFiles = 5
	// ExitDamaged means that the content of a snapshot is not what the sidecar wrote.
	ExitDamaged = 6
	// ExitGap means that events between two snapshots are missing.
	ExitGap = 7
	// ExitOverlap means that two delta snapshots contain the same events.
	ExitOverlap = 8
	// ExitHistory means that the snapshots contain different histories.
	ExitHistory = 9
	// ExitUnavailable means that the snapshots or the database do not contain the revision or time.
	ExitUnavailable = 10
	// ExitHashDiffers means that the keys and values are not those of the live etcd.
	ExitHashDiffers = 11
	// ExitRestoreDiffers means that the sidecar restored something else than the snapshots contain.
	ExitRestoreDiffers = 12
	// ExitLog means that the write-ahead log is missing or cannot be read.
	ExitLog = 13
	// ExitNoSnapshot means that the directory contains no full snapshot.
	ExitNoSnapshot = 14
	// ExitNotFound means that the key does not exist.
	ExitNotFound = 15
)

// exitCodes are the errors with an exit code of their own.
var exitCodes = []struct {
	err  error
	code int
}{
	{inspect.ErrNoDatabase, ExitNoDatabase},
	{inspect.ErrCorrupt, ExitCorrupt},
	{inspect.ErrNoFiles, ExitNoFiles},
	{snapshots.ErrDamaged, ExitDamaged},
	{replay.ErrGap, ExitGap},
	{replay.ErrOverlap, ExitOverlap},
	{replay.ErrHistory, ExitHistory},
	{replay.ErrUnavailable, ExitUnavailable},
	{keys.ErrRevision, ExitUnavailable},
	{extract.ErrRevision, ExitUnavailable},
	{replay.ErrHashDiffers, ExitHashDiffers},
	{replay.ErrRestoreDiffers, ExitRestoreDiffers},
	{raftlog.ErrMissing, ExitLog},
	{raftlog.ErrUnreadable, ExitLog},
	{snapshots.ErrNone, ExitNoSnapshot},
	{keys.ErrNotFound, ExitNotFound},
}

// version is the version of the build. hack/build.sh sets it.
var version = "unknown"

// Run runs the command with these arguments. It returns the exit code.
func Run(out, errOut io.Writer, args []string) int {
	command := &cobra.Command{
		Use:   "etcd-helper",
		Short: "Inspect, restore and change databases of etcd that no etcd has opened",
		Long: `Inspects, restores and changes databases of etcd members and snapshots of etcd-backup-restore, without an etcd. It reads the files of
etcd 3.4, 3.5 and 3.6.

Exit codes: 0 success, 1 wrong flags or a file cannot be opened, read or written, 2 panic, 3 no database, 4 the database is corrupt, 5 no
files, 6 damaged snapshot, 7 missing events, 8 overlapping delta snapshots, 9 different histories, 10 revision or time not available, 11 the
hash differs from that of the live etcd, 12 the restored database differs, 13 no readable write-ahead log, 14 no full snapshot, 15 no such
key.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.CompletionOptions.DisableDefaultCmd = true
	log := newLog(errOut)
	command.AddCommand(
		newInspectCommand(log), newReplayCommand(log), newCompareCommand(log), newExtractCommand(log, time.Now), newBumpCommand(log), newClearAlarmsCommand(log),
		newGetCommand(log), newListCommand(log), newExportCommand(log), newDiffCommand(log), newPrefixesCommand(log), newWaitCommand(),
	)
	command.SetOut(out)
	command.SetErr(errOut)
	command.SetArgs(args)

	err := command.ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(errOut, "etcd-helper:", err)
	}

	return exitCode(err)
}

func exitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	for _, known := range exitCodes {
		if errors.Is(err, known.err) {
			return known.code
		}
	}

	return ExitFailed
}

// newLog returns a log for the warnings of etcd's packages.
func newLog(out io.Writer) *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(out), zapcore.WarnLevel))
}
