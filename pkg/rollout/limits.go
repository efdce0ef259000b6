// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"time"
)

// Limits are the limits of the rollout of new defaults, from the configuration of the operator.
type Limits struct {
	// Total limits the unfinished updates of all Etcds.
	Total Limit
	// PerZone limits those of Etcds with members in one zone.
	PerZone Limit
	// PerChange limits those with the same old and new defaults.
	PerChange Limit
	// Canaries are the Etcds of a change that must pass before others follow. 0: none.
	Canaries int
	// CanaryPeriod is how long all members must be ready with the new defaults.
	CanaryPeriod time.Duration
	// Timeout is how long members may be not ready before the update has failed. An update that has not passed after six times this has failed too.
	Timeout time.Duration
}

// Limit is a number, a percentage of Etcds, or the lower of both. Nil: no limit. It is never below 1.
type Limit struct {
	Number, Percentage *int
}

// Of returns the limit for a number of Etcds. A percentage is rounded down.
func (l Limit) Of(etcds int) int {
	limit := math.MaxInt
	if l.Number != nil {
		limit = *l.Number
	}
	if l.Percentage != nil {
		limit = min(limit, etcds*(*l.Percentage)/100)
	}

	return max(limit, 1)
}
