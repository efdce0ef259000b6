// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

// lookbacks are how far back the last firing of a schedule is searched, one after the other. The longest covers the 29th of
// February.
var lookbacks = []time.Duration{time.Hour, 25 * time.Hour, 32 * 24 * time.Hour, 366 * 24 * time.Hour, 9 * 366 * 24 * time.Hour}

// nextFiring returns when the cron expression fires first after the given time in UTC; zero when it never does, or cannot be
// read.
func nextFiring(expression string, after time.Time) time.Time {
	schedule, err := cron.ParseStandard(expression)
	if err != nil {
		return time.Time{}
	}

	return schedule.Next(after.UTC())
}

// lastFiring returns when the cron expression last fired, at or before the given time in UTC; false when it never does. The
// error names what is wrong with the expression.
func lastFiring(expression string, at time.Time) (time.Time, bool, error) {
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
