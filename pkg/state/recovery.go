// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// RecoverySource is the data from which a cluster without a possible quorum is recovered.
type RecoverySource string

// The sources.
const (
	// RecoverMembers is the data of the remaining member with the newest log.
	RecoverMembers RecoverySource = "members"
	// RecoverStore is what the sidecar restores from the backup store.
	RecoverStore RecoverySource = "store"
)

// Recovery is the recovery of a cluster whose quorum is lost forever. It is recorded while the quorum is lost, also before a choice.
type Recovery struct {
	// LostAt is when the operator found that the quorum is lost forever.
	LostAt time.Time `json:"lostAt"`
	// Source is the chosen data. Empty: none is chosen.
	Source RecoverySource `json:"source,omitempty"`
	// Token is that of the chosen option. After a withdrawal, the operator does not choose an option with this token by itself.
	Token string `json:"token,omitempty"`
	// By is who chose it, as in "chosen by a user".
	By string `json:"by,omitempty"`
	// ByPolicy is true if the operator chose it by the recovery policy.
	ByPolicy bool `json:"byPolicy,omitempty"`
	// ChosenAt is when it was chosen.
	ChosenAt time.Time `json:"chosenAt,omitzero"`
	// Revision is the revision that was stated. The data must have at least this revision.
	Revision int64 `json:"revision,omitempty"`
	// Known is the highest known revision when it was stated.
	Known int64 `json:"known,omitempty"`
	// ProofRequired is true if the recovery is withdrawn unless it is proven that no acknowledged write is lost.
	ProofRequired bool `json:"proofRequired,omitempty"`
	// Stopped is true when all pods were gone after the choice, and no Job existed that had inspected a volume before.
	Stopped bool `json:"stopped,omitempty"`
	// Claim and ClaimUID are the PersistentVolumeClaim with the data of the source members. Empty before the volumes were inspected.
	Claim    string    `json:"claim,omitempty"`
	ClaimUID types.UID `json:"claimUID,omitempty"`
	// Proven is true if the log of the member has every acknowledged write.
	Proven bool `json:"proven,omitempty"`
	// Job is the UID of the first Job that may have copied data into the backup store. It is recorded before the Job is resumed. Empty: no Job has copied
	// anything. With it, the recovery is not withdrawn: members would continue a history that the store does not have.
	Job types.UID `json:"job,omitempty"`
	// Outdated is the UID of a Job whose snapshot cannot be used any more. Empty: there is none.
	Outdated types.UID `json:"outdated,omitempty"`
	// Stored is what a Job has copied into the backup store. Nil: nothing yet.
	Stored *StoredRecovery `json:"stored,omitempty"`
	// Withdrawn is why the recovery was withdrawn, as a sentence. Empty: it was not.
	Withdrawn string `json:"withdrawn,omitempty"`
}

// StoredRecovery is a full snapshot that a recovery has stored.
type StoredRecovery struct {
	// Name of the object in the store.
	Name string `json:"name"`
	// Store is the location of the store, as Store.String names it.
	Store string `json:"store,omitempty"`
	// Revision and Keys are what a restore must contain, and Hash is the hash of the key-value pairs.
	Revision int64  `json:"revision"`
	Keys     int64  `json:"keys"`
	Hash     uint32 `json:"hash"`
	// Extracted is the revision before the bump.
	Extracted int64 `json:"extracted"`
	// At is when the operator has read the result of the Job.
	At time.Time `json:"at"`
}

// IsActive is true after an option was chosen, until that is withdrawn. Nil is not active.
func (r *Recovery) IsActive() bool { return r != nil && r.Source != "" && r.Withdrawn == "" }

// String returns the source for messages.
func (r *Recovery) String() string {
	text := fmt.Sprintf("the cluster is recovered from its %s with revision %d, chosen by %s", r.Source, r.Revision, r.By)
	if r.Proven {
		text += "; its log has every acknowledged write"
	}

	return text
}
