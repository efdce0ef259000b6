// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

// RestorePhase is the phase of the restore of a cluster from its store. The ManagedResource records it.
type RestorePhase string

// The phases.
const (
	// RestoreNone means that no restore is under way.
	RestoreNone RestorePhase = ""
	// RestoreDiscard stops the members, deletes their volumes and resets their Leases, including those of an interrupted restore.
	RestoreDiscard RestorePhase = "discard"
	// RestoreStart starts the first member alone, which restores. The others join it as learners.
	RestoreStart RestorePhase = "start"
	// RestoreJoin adds the other members, and ends when all of them are healthy and list each other.
	RestoreJoin RestorePhase = "join"
)
