// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RestorePhase is the phase of the restore of a cluster from its store. The ManagedResource records it.
type RestorePhase string

// The phases.
const (
	// RestoreNone means that no restore is under way.
	RestoreNone RestorePhase = ""
	// RestoreRecover stops the members, and stores the chosen data of a cluster whose quorum is lost forever. Then RestoreDiscard begins.
	RestoreRecover RestorePhase = "recover"
	// RestoreDiscard stops the members, deletes their volumes and resets their Leases, including those of an interrupted restore.
	RestoreDiscard RestorePhase = "discard"
	// RestoreStart starts the first member alone, which restores. The others join it as learners.
	RestoreStart RestorePhase = "start"
	// RestoreJoin adds the other members, and ends when all of them are healthy and list each other.
	RestoreJoin RestorePhase = "join"
)

// VerifiedRestore are the facts with which a restore from the backup store began. Messages name them, and Evidence continues with them.
type VerifiedRestore struct {
	// Revision and Keys are what a Job restored from the store: its highest revision, and the number of keys at that revision.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	// Known is the highest revision of which the operator knew, from the Leases of snapshots, the evidence and the volumes. 0: none.
	Known int64 `json:"known,omitempty"`
	// AcceptedRevision is the revision that a user accepted. Known is higher than Revision, the revision of a volume is unknown, or the store may
	// restore lost writes. 0: none of these applied.
	AcceptedRevision int64 `json:"acceptedRevision,omitempty"`
	// AcceptedBy is who accepts the loss, as in "a user accepts it". Empty: a user.
	AcceptedBy string `json:"acceptedBy,omitempty"`
	// Store is the location that the Job restored from, as Store.String names it. Empty: not known.
	Store string `json:"store,omitempty"`
	// At is when the operator compared them.
	At time.Time `json:"at"`
}

// String returns the facts for messages, also for nil, which is a restore without a verification.
func (v *VerifiedRestore) String() string {
	if v == nil {
		return "a user requested it without a verification of the store"
	}
	text := fmt.Sprintf("the store restores revision %d with %d keys", v.Revision, v.Keys)
	if v.Known > 0 {
		text += fmt.Sprintf(", and the highest known revision is %d", v.Known)
	}
	if v.AcceptedRevision > 0 {
		text += fmt.Sprintf("; %s accepts revision %d", cmp.Or(v.AcceptedBy, "a user"), v.AcceptedRevision)
	}

	return text
}

// RetainedVolume is a volume with the data that a restore gave up, or with wrong data of a member. The operator has set its reclaim policy to Retain, or is
// about to. After a restore, it sets the original policy again when the cluster has a full snapshot.
type RetainedVolume struct {
	// Name and UID of the PersistentVolume.
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Claim and ClaimUID are the PersistentVolumeClaim that the restore deletes.
	Claim    string    `json:"claim"`
	ClaimUID types.UID `json:"claimUID"`
	// ReclaimPolicy is its original reclaim policy.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy"`
	// At is when the operator decided to retain it.
	At time.Time `json:"at"`
	// Kept is true for a volume with wrong data. When its claim is deleted, the record is deleted too, and the volume stays until a user deletes it.
	Kept bool `json:"kept,omitempty"`
}
