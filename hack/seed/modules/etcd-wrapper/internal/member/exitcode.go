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

// exitCodeFile lies beside the data directory and holds the name of the signal that ended the last run.
func exitCodeFile(dataVolume string) string {
	return filepath.Join(dataVolume, "exit_code")
}

// ValidationMode is sanity when the last run was ended by a signal, so that etcd closed its files itself, and full otherwise.
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

// SignalContext ends with SIGTERM or SIGINT, which it records on the volume, or when the returned function is called.
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

// forgetExitCode is called after a clean start: from then on only a new signal vouches for the data.
func removeExitCode(dataVolume string) {
	if err := os.Remove(exitCodeFile(dataVolume)); err != nil && !os.IsNotExist(err) {
		log.Printf("Exit code was not removed: %v", err)
	}
}
