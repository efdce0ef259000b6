// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Progress is what one observation of an Etcd shows of its update.
type Progress struct {
	// Defaults is the fingerprint of the defaults that are rendered.
	Defaults string
	// Hibernated is true if no pods are rendered.
	Hibernated bool
	// RolledOut is true if the rendering is applied, and all pods are created from it.
	RolledOut bool
	// ReadySince is since when all pods have been ready. Zero: they are not.
	ReadySince time.Time
}

// Next returns the record of an update after an observation, and when it can change without another event. 0: it cannot. Nil: the Etcd does not
// use the defaults of the update any more, or it hibernates.
func Next(record *state.Rollout, p Progress, period time.Duration, now time.Time) (*state.Rollout, time.Duration) {
	switch {
	case record == nil, record.To != p.Defaults:
		return nil, 0
	case record.HasPassed():
		return record, 0
	case p.Hibernated:
		return nil, 0
	case !p.RolledOut, p.ReadySince.IsZero():
		return record, 0
	}
	until := later(p.ReadySince, record.StartedAt).Add(period)
	if now.Before(until) {
		return record, until.Sub(now)
	}
	passed := *record
	passed.PassedAt = now.UTC().Truncate(time.Second)

	return &passed, 0
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}
