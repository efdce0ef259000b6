// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newWaitCommand() *cobra.Command {
	var limit time.Duration
	command := &cobra.Command{
		Use:   "wait --for=DURATION",
		Short: "Wait, so that other commands can run in the same container",
		Long: `Waits for a duration, or until the process receives SIGTERM or SIGINT. Meanwhile, users run other commands in the same container with
kubectl exec. The command opens no file.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if limit <= 0 {
				return fmt.Errorf("--for is %s: use a positive duration, for example 15m", limit)
			}
			ctx, cancel := context.WithTimeout(command.Context(), limit)
			defer cancel()
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			<-ctx.Done()

			return nil
		},
	}
	command.Flags().DurationVar(&limit, "for", 0, "How long to wait.")
	markRequired(command, "for")

	return command
}
