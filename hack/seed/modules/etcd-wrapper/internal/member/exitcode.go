// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// exitCodeFile is a file next to the data directory. It contains the name of the signal that ended the last run.
func exitCodeFile(dataVolume string) string {
	return filepath.Join(dataVolume, "exit_code")
}

// ValidationMode returns sanity if a signal ended the last run, so that etcd has closed its files. Otherwise it returns
// full.
func ValidationMode(dataVolume string) string {
	content, err := os.ReadFile(exitCodeFile(dataVolume))
	if err != nil {
		return "full"
	}

	switch strings.TrimSpace(string(content)) {
	case syscall.SIGTERM.String(), syscall.SIGINT.String():
		return "sanity"
	default:
		return "full"
	}
}

// SignalContext returns a context that ends with SIGTERM or SIGINT, or when the returned function is called. It records
// the signal on the volume.
func SignalContext(parent context.Context, dataVolume string) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)

	go func() {
		received := <-signals
		if err := os.WriteFile(exitCodeFile(dataVolume), []byte(received.String()), 0o600); err != nil {
			log.Printf("Exit code was not recorded: %v", err)
		}

		cancel(fmt.Errorf("received signal: %s", received))
	}()

	return ctx, cancel
}

// removeExitCode is called after a successful start. Until the next signal the file must not exist, since a crash may
// corrupt the data.
func removeExitCode(dataVolume string) {
	if err := os.Remove(exitCodeFile(dataVolume)); err != nil && !os.IsNotExist(err) {
		log.Printf("Exit code was not removed: %v", err)
	}
}
