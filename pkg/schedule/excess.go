// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"time"
)

const (
	// excessPeriod is the period in which events are counted.
	excessPeriod = time.Hour
	// maxUnscheduled is the number of events within that period that may have other causes than the schedule, for example tasks and restarts.
	maxUnscheduled = 10
)

// Excess detects events that happen far more often than their schedule requests. The zero value has observed no event. It is not safe for concurrent use.
type Excess struct {
	events []time.Time
	since  time.Time
}

// Observe adds the newest event that is known at a time, and returns since when there are too many of them. A zero event is none. Zero: there are not too
// many. Only newer events than the last one count.
func (e *Excess) Observe(expression string, newest, now time.Time) time.Time {
	if last := len(e.events) - 1; !newest.IsZero() && (last < 0 || newest.After(e.events[last])) {
		e.events = append(e.events, newest)
	}
	e.events = slices.DeleteFunc(e.events, func(event time.Time) bool { return now.Sub(event) > excessPeriod })
	switch isExcess := len(e.events) > maxUnscheduled && len(e.events)-scheduledIn(expression, now) > maxUnscheduled; {
	case !isExcess:
		e.since = time.Time{}
	case e.since.IsZero():
		e.since = now
	}

	return e.since
}

// scheduledIn returns how often the expression fires in the period before a time.
func scheduledIn(expression string, now time.Time) int {
	count := 0
	for next := Next(expression, now.Add(-excessPeriod)); !next.IsZero() && !next.After(now); next = Next(expression, next) {
		count++
	}

	return count
}
