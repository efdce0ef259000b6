// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package progress prints short lines about the progress of a command and about what it waits for.
package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Printer writes complete lines. It is safe for concurrent use.
type Printer struct {
	out   io.Writer
	start time.Time
	lock  sync.Mutex
}

// New returns a Printer whose clock starts now.
func New(out io.Writer) *Printer {
	return &Printer{out: out, start: time.Now()}
}

// Println prints a line that begins with the elapsed time.
func (p *Printer) Println(format string, args ...any) {
	p.lock.Lock()
	defer p.lock.Unlock()

	_, _ = fmt.Fprintf(p.out, "%7s  %s\n", p.Elapsed(), fmt.Sprintf(format, args...))
}

// Plain prints a line without the elapsed time.
func (p *Printer) Plain(format string, args ...any) {
	p.lock.Lock()
	defer p.lock.Unlock()

	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// Elapsed returns the time since the creation of the Printer, in seconds or minutes.
func (p *Printer) Elapsed() string {
	return Round(time.Since(p.start))
}

// Round formats a duration such as 3.2s or 1m05s.
func Round(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}

	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// Wait polls check until it returns an empty string or an error. It prints the returned string when it changes, and at
// least every 15 seconds. The error after the timeout contains the last string.
func (p *Printer) Wait(ctx context.Context, subject string, timeout time.Duration, check func(context.Context) (string, error)) error {
	const (
		poll     = 300 * time.Millisecond
		reminder = 15 * time.Second
	)

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	last, printed := "", time.Now().Add(-reminder)

	for {
		missing, err := check(ctx)
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", subject, err)
		}

		if missing == "" {
			return nil
		}

		if since := time.Since(printed); (missing != last && since > time.Second) || since > reminder {
			p.Println("waiting for %s: %s", subject, missing)
			printed, last = time.Now(), missing
		}

		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return fmt.Errorf("%s was not ready within %s; last status: %s", subject, timeout, missing)
			}

			return ctx.Err()
		case <-time.After(poll):
		}
	}
}
