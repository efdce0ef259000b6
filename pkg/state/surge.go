// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SurgePhase is a phase of a surge.
type SurgePhase string

// The phases of a surge. The record contains the next phase before anything of it is done.
const (
	// SurgeRequested is recorded with the rendering that requests another volume, before the surge begins. No temporary member exists.
	SurgeRequested SurgePhase = "Requested"
	// SurgeJoin adds the temporary member. It ends when that votes.
	SurgeJoin SurgePhase = "Join"
	// SurgeReplace removes the first member from etcd.
	SurgeReplace SurgePhase = "Replace"
	// SurgeDiscard deletes the claim and the pod of the removed first member.
	SurgeDiscard SurgePhase = "Discard"
	// SurgeReturn adds the first member again, with a new pod and a new volume.
	SurgeReturn SurgePhase = "Return"
	// SurgeEnd removes the temporary member from etcd. It also does so in a surge that was aborted before the temporary member voted.
	SurgeEnd SurgePhase = "End"
	// SurgeCleanUp deletes the claim, the pod and the Lease of the removed temporary member. The configuration lists one member again.
	SurgeCleanUp SurgePhase = "CleanUp"
	// SurgeComplete is the record of a surge that has replaced the member. No temporary member is left.
	SurgeComplete SurgePhase = "Complete"
	// SurgeAborted is the record of a surge that was aborted. No temporary member is left. The operator tries again after a while.
	SurgeAborted SurgePhase = "Aborted"
)

// Surge is the replacement of the only member of a cluster through a temporary second member.
type Surge struct {
	// Phase is the current phase.
	Phase SurgePhase `json:"phase"`
	// Since is when the phase began, or when it continued after a quorum was missing.
	Since time.Time `json:"since"`
	// ReadyAt is when the manifests of the phase were applied, and the client Service selected only the member that stays. Zero: not yet, or the phase
	// removes no member.
	ReadyAt time.Time `json:"readyAt,omitzero"`
	// Paused is true while a quorum is missing. All members then have their advertised URLs, so that they can start again.
	Paused bool `json:"paused,omitempty"`
	// Cause is why the member is replaced, as a part of a sentence.
	Cause string `json:"cause"`
	// Pod is the UID of the pod of the first member that is replaced. Its sidecar was started in a cluster of one member. From SurgeEnd on, it is the
	// UID of the pod that replaces it, whose sidecar was started in a cluster of two members.
	Pod types.UID `json:"pod,omitempty"`
	// Claim is the UID of the claim of that pod. No other claim of the first member is deleted. From SurgeReturn on, it may be the UID of the claim that
	// replaces it, if the spec requests another volume by now. After the surge, it is the claim that is to be replaced.
	Claim types.UID `json:"claim,omitempty"`
	// Restarts is the number of restarts of etcd in that pod before the surge. A higher number means that its sidecar has checked its data again.
	Restarts int32 `json:"restarts,omitempty"`
	// MayVote is true before the operator promotes the second voting member, and before the sidecar of the temporary member may promote that. Without the
	// member list, both members then count as voting members, until one of them is removed.
	MayVote bool `json:"mayVote,omitempty"`
	// ReplacesVolume is true if the spec requests a volume that no expansion provides.
	ReplacesVolume bool `json:"replacesVolume,omitempty"`
	// Error is why the surge was aborted. Empty: it was not, or its cause has gone.
	Error string `json:"error,omitempty"`
	// Template is the checksum of the pod template from which the new pod of the first member was created. A webhook may add to the template of a
	// StatefulSet with two replicas, and remove that when it has one. Empty: it is not known.
	Template string `json:"template,omitempty"`
	// Revision is the revision of the pod template with which it was aborted. Another one is tried without delay. Empty: it was not aborted.
	Revision string `json:"revision,omitempty"`
}

// IsActive is true while a temporary member may exist. Nil is not active.
func (s *Surge) IsActive() bool {
	return s != nil && s.Phase != SurgeComplete && s.Phase != SurgeAborted && s.Phase != SurgeRequested
}
