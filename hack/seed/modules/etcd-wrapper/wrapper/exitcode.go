// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// exitCodeFile is a file next to the data directory. It contains the name of the signal that ended the last run.
func exitCodeFile(volume string) string { return filepath.Join(volume, "exit_code") }

// markerFile is the file in which the image before etcd-wrapper recorded how the last run ended.
func markerFile(volume string) string { return filepath.Join(volume, "validation_marker") }

// validationMode returns sanity if a signal ended the last run, so that etcd may have closed its files. Otherwise it returns full. It
// removes the marker file.
func validationMode(volume string) string {
	removeFile(markerFile(volume))

	content, err := os.ReadFile(exitCodeFile(volume))
	if err != nil {
		slog.Error("exit code was not read", "error", err)
	}

	switch strings.TrimSpace(string(content)) {
	case syscall.SIGTERM.String(), syscall.SIGINT.String():
		return "sanity"
	default:
		return "full"
	}
}

// signalContext returns a context that ends with SIGTERM or SIGINT, or when the returned function is called. It records the first signal
// on the volume. A second signal ends the process.
func signalContext(volume string) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)

	go func() {
		received := <-signals
		if err := os.WriteFile(exitCodeFile(volume), []byte(received.String()), 0o600); err != nil {
			slog.Error("exit code was not recorded", "error", err)
		}

		slog.Info("received a signal", "signal", received.String())
		cancel(fmt.Errorf("received signal: %s", received))
		<-signals
		os.Exit(1)
	}()

	return ctx, cancel
}

// removeExitCode is called after the start of etcd. Until the next signal the file must not exist, since a crash may corrupt the data.
func removeExitCode(volume string) { removeFile(exitCodeFile(volume)) }

func removeFile(file string) {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Error("file was not removed", "error", err)
	}
}
