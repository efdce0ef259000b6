// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// RestoreDrill is the record of the restore drills of an Etcd. It has an annotation of its own, which only the controller of restore drills writes.
type RestoreDrill struct {
	// Period is the time between two scheduled drills. Since is when the operator began to schedule them, when a block has ended, or when the store has
	// changed. A proof is not outdated before two periods after that. Zero: none is scheduled.
	Period Duration  `json:"period,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	// Blocked is why no scheduled drill can run, for example because the cluster hibernates. Empty: one can, or none is scheduled.
	Blocked string `json:"blocked,omitempty"`
	// Store is the store whose drills are scheduled, as text. Empty: none is scheduled.
	Store string `json:"store,omitempty"`
	// Last is the last drill that has ended. Nil: none has.
	Last *DrillResult `json:"last,omitempty"`
	// Incomplete is the number of drills in a row that were incomplete, up to the last one.
	Incomplete int `json:"incomplete,omitempty"`
	// Fault is the last drill that has found a fault. Nil: none has, or a later one has proven the store.
	Fault *DrillResult `json:"fault,omitempty"`
	// Repair is what the operator does after a fault. Nil: there was no fault, or a later drill has proven the store. There is therefore only one full
	// snapshot until the next proof.
	Repair *DrillRepair `json:"repair,omitempty"`
	// Proven is the last drill that has proven the store. Nil: none has.
	Proven *DrillProof `json:"proven,omitempty"`
}

// DrillResult is how a drill has ended.
type DrillResult struct {
	// Task is the UID of its EtcdOpsTask, and Job that of its Job. Job is empty if the task has ended without a Job.
	Task types.UID `json:"task,omitempty"`
	Job  types.UID `json:"job,omitempty"`
	// EndedAt is when it ended.
	EndedAt time.Time `json:"endedAt"`
	// Reason is a reason of the condition RestoreProven.
	Reason string `json:"reason"`
	// Message is what was found, as a sentence.
	Message string `json:"message,omitempty"`
	// Store is the store of the drill, as text.
	Store string `json:"store,omitempty"`
	// Repeats is true for the drill after a drill that has found a fault.
	Repeats bool `json:"repeats,omitempty"`
}

// DrillRepair is the full snapshot after a fault, and the drill after that. Their EtcdOpsTasks are deleted an hour after they ended.
type DrillRepair struct {
	// Fault is the UID of the task of the drill that has found the fault, and Store the store of the drill, as text.
	Fault types.UID `json:"fault"`
	Store string    `json:"store"`
	// SnapshotAt is when the full snapshot was taken. Zero: none was.
	SnapshotAt time.Time `json:"snapshotAt,omitzero"`
	// Failures is the number of full snapshots that have failed. FailedAt and Failure are when and why the last one has. 0: none has.
	Failures int       `json:"failures,omitempty"`
	FailedAt time.Time `json:"failedAt,omitzero"`
	Failure  string    `json:"failure,omitempty"`
	// Incomplete is the number of drills after the full snapshot that were incomplete, and DrilledAt is when the last one ended. 0: none was.
	Incomplete int       `json:"incomplete,omitempty"`
	DrilledAt  time.Time `json:"drilledAt,omitzero"`
}

// DrillProof is what a successful drill has proven.
type DrillProof struct {
	// ProvenAt is when the drill ended.
	ProvenAt time.Time `json:"provenAt"`
	// Store is the store of the drill, as text. Snapshot is the newest snapshot whose content is proven.
	Store    string `json:"store"`
	Snapshot string `json:"snapshot"`
	// Revision is the revision at which the snapshots contain what the cluster contained, and Hash is that of etcd's HashKV.
	Revision int64  `json:"revision"`
	Hash     uint32 `json:"hash"`
	// RestoreTime is how long the copy and the restore of the snapshots took.
	RestoreTime Duration `json:"restoreTime"`
	// DataAge is the age of the newest snapshot before the drill, if the cluster had newer data. MissingRevisions is the number of revisions that the
	// snapshots lacked then.
	DataAge          Duration `json:"dataAge"`
	MissingRevisions int64    `json:"missingRevisions"`
}

// Duration is a duration whose form in JSON is text, such as 24h0m0s.
type Duration time.Duration

// MarshalText returns the text of the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the text of a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("reading a duration: %w", err)
	}
	*d = Duration(parsed)

	return nil
}

// IsProof is true for a drill that has proven the store. IsFault is true for one that has found that the store cannot be restored as it should.
// Both are false for a drill that is incomplete.
func (r DrillResult) IsProof() bool { return r.Reason == druidv1alpha1.ReasonRestoreProven }

// IsFault is described at IsProof.
func (r DrillResult) IsFault() bool {
	return !r.IsProof() && r.Reason != druidv1alpha1.ReasonDrillIncomplete
}

// IsRepairable is true for a fault of the snapshots that a full snapshot can repair. If the cluster and the snapshots contain different data, the snapshots
// can be the correct ones. The sidecar deletes them after a full snapshot.
func (r DrillResult) IsRepairable() bool {
	switch r.Reason {
	case druidv1alpha1.ReasonSnapshotDamaged, druidv1alpha1.ReasonEventsMissing, druidv1alpha1.ReasonDeltaSnapshotsOverlap,
		druidv1alpha1.ReasonNoSnapshot, druidv1alpha1.ReasonRestoreFailed, druidv1alpha1.ReasonRestoreDiffers:
		return true
	default:
		return false
	}
}

// With returns the record with the result of another drill, or of another attempt of its task. The proof is nil unless the drill has proven the store. A fault that a full snapshot cannot
// repair stays until a proof, so that a later fault causes no full snapshot.
func (d RestoreDrill) With(result DrillResult, proof *DrillProof) RestoreDrill {
	isNewTask := d.Last == nil || d.Last.Task != result.Task
	d.Last = &result
	switch isIncomplete := !result.IsProof() && !result.IsFault(); {
	case !isIncomplete:
		d.Incomplete = 0
	case isNewTask || d.Incomplete == 0:
		d.Incomplete++
	}
	switch {
	case proof != nil:
		d.Proven, d.Fault, d.Repair = proof, nil, nil
	case result.IsFault():
		if before := d.FaultIn(result.Store); before == nil || before.IsRepairable() || !result.IsRepairable() {
			d.Fault = &result
		}
	case result.Repeats && d.Repair != nil:
		repair := *d.Repair
		if repair.DrilledAt = result.EndedAt; isNewTask || repair.Incomplete == 0 {
			repair.Incomplete++
		}
		d.Repair = &repair
	}

	return d
}

// FaultIn returns the last drill that has found a fault in the store, if no later one has proven it. Nil: there is none.
func (d *RestoreDrill) FaultIn(store string) *DrillResult {
	if d == nil || d.Fault == nil || !IsSameStore(d.Fault.Store, store) {
		return nil
	}

	return d.Fault
}

// RepairOf returns what the operator does after a fault in the store. Nil: nothing yet.
func (d *RestoreDrill) RepairOf(store string) *DrillRepair {
	if d == nil || d.Repair == nil || !IsSameStore(d.Repair.Store, store) {
		return nil
	}

	return d.Repair
}

// ProofFor returns the last proof if it is about the store. Nil: there is none. A later drill can have found a fault.
func (d *RestoreDrill) ProofFor(store string) *DrillProof {
	if d == nil || d.Proven == nil || !IsSameStore(d.Proven.Store, store) {
		return nil
	}

	return d.Proven
}

// ParseRestoreDrill reads the annotation of a ManagedResource. Nil: there is none, or it cannot be read. The next drill then writes it again.
func ParseRestoreDrill(annotations map[string]string) *RestoreDrill {
	text := annotations[druidv1alpha1.ManagedResourceAnnotationRestoreDrill]
	if text == "" {
		return nil
	}
	parsed := &RestoreDrill{}
	if err := json.Unmarshal([]byte(text), parsed); err != nil {
		return nil
	}

	return parsed
}

// Marshal returns the value of the annotation.
func (d RestoreDrill) Marshal() (string, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("recording restore drills: %w", err)
	}

	return string(text), nil
}
