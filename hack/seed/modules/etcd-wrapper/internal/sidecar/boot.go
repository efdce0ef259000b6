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

// configAttempts is the number of requests for the configuration before the container exits and is restarted.
const configAttempts = 5

// Initialize waits until the sidecar has a valid data directory, and starts the initialisation again after a failure.
// It has no timeout, since the duration of a restore depends on the size of the backup. It returns an error only if ctx
// ends.
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
				log.Printf("Starting the initialization failed, retrying: %v", err)
			}
		}

		if err := sleep(ctx, period); err != nil {
			return err
		}
	}
}

// FetchConfig returns the member's configuration, or the last error after five attempts.
func FetchConfig(ctx context.Context, c *Client, period time.Duration) ([]byte, error) {
	var lastErr error

	for range configAttempts {
		config, err := c.Config(ctx)
		if err == nil {
			return config, nil
		}

		log.Printf("Fetching the configuration failed, retrying: %v", err)

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
