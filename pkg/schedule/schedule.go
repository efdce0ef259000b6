// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package schedule evaluates cron expressions, in UTC.
//
// What may not live here: clocks, and what is due at a time.
package schedule

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

// lookbacks are the periods in which the last firing of a schedule is searched, from the shortest to the longest. The longest
// includes a 29th of February.
var lookbacks = []time.Duration{time.Hour, 25 * time.Hour, 32 * 24 * time.Hour, 366 * 24 * time.Hour, 9 * 366 * 24 * time.Hour}

// Next returns the first time after the given one at which the cron expression fires, in UTC. Zero: it never fires, or it
// is invalid.
func Next(expression string, after time.Time) time.Time {
	schedule, err := cron.ParseStandard(expression)
	if err != nil {
		return time.Time{}
	}

	return schedule.Next(after.UTC())
}

// Last returns the last time at which the cron expression fired, at or before the given time, in UTC. It returns false if
// there is none. The error describes an invalid expression.
func Last(expression string, at time.Time) (time.Time, bool, error) {
	schedule, err := cron.ParseStandard(expression)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("schedule %q: %w", expression, err)
	}
	for _, lookback := range lookbacks {
		var last time.Time
		for next := schedule.Next(at.UTC().Add(-lookback)); !next.IsZero() && !next.After(at); next = schedule.Next(next) {
			last = next
		}
		if !last.IsZero() {
			return last, true, nil
		}
	}

	return time.Time{}, false, nil
}
