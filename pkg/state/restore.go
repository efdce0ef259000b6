// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

// RestorePhase is how far the restore of a cluster from its store is. It is remembered on the ManagedResource.
type RestorePhase string

// The phases.
const (
	// RestoreNone means that no restore goes on.
	RestoreNone RestorePhase = ""
	// RestoreDiscard stops the members, and discards their volumes and what their leases say. What a restore left that was
	// interrupted goes with them.
	RestoreDiscard RestorePhase = "discard"
	// RestoreStart starts the first member alone, which restores. The others join it as learners.
	RestoreStart RestorePhase = "start"
	// RestoreJoin lets the others join the first member, and ends when all of them serve and know of each other.
	RestoreJoin RestorePhase = "join"
)
