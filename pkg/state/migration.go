// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// MigrationPhase is a phase of a volume migration.
type MigrationPhase string

// The phases of a volume migration. The record contains the next phase before anything of it is done.
const (
	// MigrationRequested is recorded with the rendering that requests other volumes. No extra member exists.
	MigrationRequested MigrationPhase = "Requested"
	// MigrationReplace adds an extra member, and replaces the members whose volumes are not as requested, one after the other.
	MigrationReplace MigrationPhase = "Replace"
	// MigrationEnd removes the extra member.
	MigrationEnd MigrationPhase = "End"
)

// Migration is the replacement of the volumes of a multi-member cluster, because the spec requests another StorageClass or a smaller size.
type Migration struct {
	// Phase is the current phase.
	Phase MigrationPhase `json:"phase"`
	// Since is when the phase began.
	Since time.Time `json:"since"`
	// Cause is why volumes are replaced, as a part of a sentence.
	Cause string `json:"cause"`
	// Claim is the UID of the claim whose member is removed from etcd, or was removed. Empty: no member is removed now. No other claim is deleted.
	Claim types.UID `json:"claim,omitempty"`
	// ReadyAt is when the pod of that member was observed to be excluded from the client Service. Zero: it is not excluded.
	ReadyAt time.Time `json:"readyAt,omitzero"`
}

// IsActive is true while an extra member may exist. Nil is not active.
func (m *Migration) IsActive() bool { return m != nil && m.Phase != MigrationRequested }

// AddsMember is true while the cluster has an extra member, so that its tolerance stays while a member is replaced. Nil adds none.
func (m *Migration) AddsMember() bool { return m != nil && m.Phase == MigrationReplace }

// ReplacesVolumes is true if it is recorded that the spec requests volumes that no expansion provides.
func (s State) ReplacesVolumes() bool {
	return s.Migration != nil || s.Surge != nil && s.Surge.ReplacesVolume
}
