// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
	"log"
	"time"
)

// configAttempts is how often the configuration is asked for before the container gives up and is restarted.
const configAttempts = 5

// Initialize returns once the sidecar has a valid data directory. It polls for ever: a sidecar that restores a large backup takes
// as long as it takes, and one that failed is started again. The error is that of ctx.
func Initialize(ctx context.Context, c *Client, mode string, period time.Duration) error {
	last := ""

	for {
		status, err := c.Status(ctx)
		if err != nil {
			status = "unreachable: " + err.Error()
		}

		if status != last {
			log.Printf("Initialization: %s", status)
			last = status
		}

		switch status {
		case "Successful":
			return nil
		case "New":
			log.Printf("Requesting initialization in mode %s", mode)

			if err := c.Start(ctx, mode); err != nil {
				log.Printf("Initialization was not started, trying again: %v", err)
			}
		}

		if err := sleep(ctx, period); err != nil {
			return err
		}
	}
}

// FetchConfig returns the member's configuration, or the last error when five attempts failed.
func FetchConfig(ctx context.Context, c *Client, period time.Duration) ([]byte, error) {
	var lastErr error

	for range configAttempts {
		config, err := c.Config(ctx)
		if err == nil {
			return config, nil
		}

		log.Printf("Configuration was not served, trying again: %v", err)

		lastErr = err
		if err := sleep(ctx, period); err != nil {
			return nil, err
		}
	}

	return nil, fmt.Errorf("fetching etcd's configuration: %w", lastErr)
}

func sleep(ctx context.Context, period time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(period):
		return nil
	}
}
