// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// Change is a change of the defaults that one or more Etcds have in common, as fingerprints of the old and the new defaults. The zero value: none.
type Change struct {
	// From is the fingerprint of the defaults before.
	From string `json:"from"`
	// To is the fingerprint of the defaults after.
	To string `json:"to"`
}

// Rollout is the update of one Etcd to other defaults of the operator, which was begun last.
type Rollout struct {
	Change `json:",inline"`

	// StartedAt is when the operator wrote the new defaults.
	StartedAt time.Time `json:"startedAt"`
	// Canary is true if the Etcd was healthy before, and its result decides whether other Etcds follow.
	Canary bool `json:"canary,omitempty"`
	// Healthy is true if all members were ready before, or before an earlier update that has not passed.
	Healthy bool `json:"healthy,omitempty"`
	// Zones are the zones of the members before, sorted. Nil: not known.
	Zones []string `json:"zones,omitempty"`
	// PassedAt is when all members had been ready with the new defaults for the canary period. Zero: they have not been.
	PassedAt time.Time `json:"passedAt,omitzero"`
}

// HasPassed is true if all members were ready with the new defaults for the canary period.
func (r *Rollout) HasPassed() bool { return r != nil && !r.PassedAt.IsZero() }

// IsUnfinished is true from the begin of an update until it has passed.
func (r *Rollout) IsUnfinished() bool { return r != nil && r.PassedAt.IsZero() }
