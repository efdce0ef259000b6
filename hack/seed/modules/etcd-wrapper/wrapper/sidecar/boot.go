// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// configAttempts is the number of requests for the configuration before the container exits and is restarted.
const configAttempts = 5

// Initialize waits until the sidecar has a valid data directory, and starts the initialization again after a failure. It calls mode before
// each start. It has no timeout, since the duration of a restore depends on the size of the backup. It returns an error only if ctx ends.
func Initialize(ctx context.Context, c *Client, mode func() string, period time.Duration) error {
	for status := StatusUnknown; status != StatusSuccessful; {
		var err error

		status, err = c.Status(ctx)
		if err != nil {
			slog.Error("reading the status of the initialization failed", "error", err)
		}

		slog.Info("read the status of the initialization", "status", status)

		if status == StatusNew {
			mode := mode()
			slog.Info("starting the initialization", "mode", mode)

			if err := c.Start(ctx, mode); err != nil {
				slog.Error("starting the initialization failed", "error", err)
			}
		}

		if err := pause(ctx, period); err != nil {
			return err
		}
	}

	return nil
}

// FetchConfig writes the member's configuration to the file, or returns the last error after five attempts. It also pauses after the last
// attempt.
func FetchConfig(ctx context.Context, c *Client, file string, period time.Duration) error {
	var err error

	for range configAttempts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		if err = c.writeConfig(ctx, file); err == nil {
			return nil
		}

		if err := pause(ctx, period); err != nil {
			return err
		}

		slog.Info("fetching the configuration again", "error", err)
	}

	return fmt.Errorf("fetching etcd's configuration: %w", err)
}

func (c *Client) writeConfig(ctx context.Context, file string) error {
	config, err := c.Config(ctx)
	if err != nil {
		return err
	}

	return os.WriteFile(file, config, 0o600)
}

func pause(ctx context.Context, period time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(period):
		return nil
	}
}
