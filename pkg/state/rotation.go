// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// RotationStage is the stage of the rotation of the CAs. A stage says what is rendered, and ends only when all members were observed
// to run what it renders.
type RotationStage string

const (
	// StageIdle is the stage of one CA: no rotation is under way.
	StageIdle RotationStage = ""
	// StagePrepareBundle makes all members trust the new CA in addition to the old one, which still signs everything.
	StagePrepareBundle RotationStage = "PrepareBundle"
	// StagePrepareLeaves gives certificates of the new CA to those who connect: clients, and members among each other.
	StagePrepareLeaves RotationStage = "PrepareLeaves"
	// StagePrepared renders what StagePrepareLeaves does, and rests until the rotation is to be completed. Members still
	// present certificates of the old CA, so that a client has all this time to learn of the new one.
	StagePrepared RotationStage = "Prepared"
	// StageCompleteLeaves gives certificates of the new CA to members, to present to clients.
	StageCompleteLeaves RotationStage = "CompleteLeaves"
	// StageCompleteBundle ends the trust in the old CA, and ends when the old CA is deleted.
	StageCompleteBundle RotationStage = "CompleteBundle"
)

// Rotation is the record of the newest rotation of the CAs of an Etcd. The zero value is a cluster whose CAs
// were never rotated.
type Rotation struct {
	// StartedAt is when the newest CA was requested, to the second: the secrets manager derives its name from it.
	// Zero: the CA is the first.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Stage of the rotation.
	Stage RotationStage `json:"stage,omitempty"`
	// PreparedAt is when StagePrepared was reached.
	PreparedAt time.Time `json:"preparedAt,omitzero"`
	// Automatic is true for a rotation that no user requested.
	Automatic bool `json:"automatic,omitempty"`
}

// IsSame compares two records of a rotation. Nil: none is recorded.
func (r *Rotation) IsSame(other *Rotation) bool {
	if r == nil || other == nil {
		return r == other
	}

	return r.Stage == other.Stage && r.Automatic == other.Automatic && r.StartedAt.Equal(other.StartedAt) && r.PreparedAt.Equal(other.PreparedAt)
}
