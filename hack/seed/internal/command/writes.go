// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/audit"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/seed"
)

// runWrites counts the writes in the API server's audit log for the given duration.
func runWrites(ctx context.Context, s *seed.Seed, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("writes", flag.ContinueOnError)
	period := flags.Duration("for", 2*time.Minute, "duration of the count")
	user := flags.String("user", "", "count only users whose names contain this text")

	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // Parse has printed the reason
	}

	from := time.Now()

	s.Out.Println("counting for %s", *period)

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(*period):
	}

	log, err := os.Open(s.Layout.AuditLog())
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = log.Close() }()

	counts, err := audit.Writes(log, from)
	if err != nil {
		return err
	}

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "TIMES\tUSER\tVERB\tRESOURCE")

	for _, count := range counts {
		if strings.Contains(count.User, *user) {
			_, _ = fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", count.Times, count.User, count.Verb, count.Resource)
		}
	}

	return table.Flush()
}
