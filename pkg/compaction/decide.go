// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// MaxAttempts is the number of consecutive Jobs before the operator takes a full snapshot instead.
const MaxAttempts = 3

// firstRetryPause is the pause after the first failed Job. Each further pause is twice as long.
const firstRetryPause = time.Minute

// Input is the observed state from which Decide computes the next action for one Etcd.
type Input struct {
	// HasStore is true if the Etcd has a backup store and the operator may run a pod that compacts its snapshots.
	HasStore bool
	// Suspended is true while reconciliation of the Etcd is suspended. Nothing new starts then.
	Suspended bool
	// RolledBack is true if the cluster has lost acknowledged writes, and no user has accepted that. The snapshots in the store have them.
	RolledBack bool
	// LostRevision is the highest revision of lost writes that the snapshots in the store may contain, although a user has accepted the loss. A
	// Job would combine them with newer writes. 0: the snapshots contain none.
	LostRevision int64
	// Hibernated is true while the cluster has no running member, so that no member can take a full snapshot.
	Hibernated bool
	// FullSnapshotLease and DeltaSnapshotLease hold the latest revisions in the store.
	FullSnapshotLease, DeltaSnapshotLease etcdcluster.Lease
	// StoreLocation is the current store, in the format of the store annotation of the Leases. Empty: unknown.
	StoreLocation string
	// AwaitsSnapshot is true from a change of the endpoint or the account of the store until a full snapshot exists there. Earlier snapshots may
	// have a gap.
	AwaitsSnapshot bool
	// EventsThreshold is the number of events since the last full snapshot that starts a Job. 0: only a task starts a Job.
	EventsThreshold int64
	// FullSnapshotThreshold is the number of events that starts a full snapshot instead of a Job. 0: no limit.
	FullSnapshotThreshold int64
	// Job is the existing Job. Nil: there is none.
	Job *Job
	// Snapshot is the latest full snapshot that was requested instead of a Job. Nil: there is none.
	Snapshot *Snapshot
	// Task is the UID of the EtcdOpsTask in progress that requests a Job. Empty: there is none.
	Task types.UID
}

// Job is the observed state of a Job that compacts snapshots.
type Job struct {
	// Deleting is true while the Job is being deleted.
	Deleting bool
	// Outcome is the result, one of the reasons of LastSnapshotCompactionSucceeded. Empty: the Job is running.
	Outcome string
	// Message is a human-readable description of Outcome.
	Message string
	// Disruption is the reason for which the pod is being disrupted. Empty: the pod is not disrupted.
	Disruption string
	// DisruptionRecorded is true when Disruption is written on the Job, so that it is known when the pod is gone.
	DisruptionRecorded bool
	// Recorded is true if the condition and the metrics report the outcome.
	Recorded bool
	// StartTime and EndTime are the times at which the Job started and ended. Zero: not yet.
	StartTime, EndTime time.Time
	// Attempt is the number of this attempt, starting at 1.
	Attempt int
	// Task is the UID of the task that requested the Job. Empty: no task did.
	Task types.UID
	// BaseRevision is the revision of the latest full snapshot when the Job was created. Empty: there was no full snapshot.
	BaseRevision string
}

// Snapshot is the observed state of a full snapshot that was requested instead of a Job.
type Snapshot struct {
	// BaseRevision is the revision of the latest full snapshot at the time of the request.
	BaseRevision string
	// Ended is true if the snapshot was taken or failed.
	Ended bool
	// Taken is true if the snapshot was taken.
	Taken bool
	// Recorded is true when condition and metrics show the outcome.
	Recorded bool
	// Message is a human-readable description of the result.
	Message string
}

// Action is the next action of the controller.
type Action string

const (
	// ActionNone means that there is nothing to do.
	ActionNone Action = "None"
	// ActionNoteDisruption means to write the reason of the pod's disruption into an annotation of the Job.
	ActionNoteDisruption Action = "NoteDisruption"
	// ActionRecordJob means to report the outcome of the Job in the condition and the metrics.
	ActionRecordJob Action = "RecordJob"
	// ActionRecordSnapshot means to report the outcome of the full snapshot in the condition and the metrics.
	ActionRecordSnapshot Action = "RecordSnapshot"
	// ActionDeleteJob means to delete the Job, which is no longer needed.
	ActionDeleteJob Action = "DeleteJob"
	// ActionRunJob means to create a Job, which replaces an existing one.
	ActionRunJob Action = "RunJob"
	// ActionTakeSnapshot means to request a full snapshot.
	ActionTakeSnapshot Action = "TakeSnapshot"
)

// Decision is the next action and its reason.
type Decision struct {
	// Action is the next action.
	Action Action
	// Attempt is the number of the Job to create, starting at 1.
	Attempt int
	// RequeueAfter is the time until the next decision if no watch event can trigger it. 0: a watch event triggers it.
	RequeueAfter time.Duration
	// Reason explains the decision. Logs and events show it.
	Reason string
}

// Events returns the number of events since the last full snapshot. It returns false if the Leases hold no revision, or if
// their snapshots do not count for the store: see IsInOtherStore and AwaitsSnapshot.
func (c Input) Events() (int64, bool) {
	if c.AwaitsSnapshot || etcdcluster.IsInOtherStore(c.FullSnapshotLease, c.StoreLocation) || etcdcluster.IsInOtherStore(c.DeltaSnapshotLease, c.StoreLocation) {
		return 0, false
	}
	full, err := strconv.ParseInt(c.FullSnapshotLease.Holder, 10, 64)
	if err != nil {
		return 0, false
	}
	delta, err := strconv.ParseInt(c.DeltaSnapshotLease.Holder, 10, 64)
	if err != nil {
		return 0, false
	}

	return max(delta-full, 0), true
}

// HasNoResult is true for a Job that completed successfully without a new full snapshot, although there are events since the
// previous one. The compaction process exits like this if it finds nothing in the store to compact.
func (c Input) HasNoResult() bool {
	if c.Job == nil || c.Job.Recorded || c.Job.Outcome != druidv1alpha1.PodSuccessReasonNone {
		return false
	}
	events, known := c.Events()

	return known && events > 0 && c.Job.BaseRevision == c.FullSnapshotLease.Holder
}

// MarkFailedWithoutResult sets the outcome of the Job to failed. The caller checks HasNoResult first.
func (c *Input) MarkFailedWithoutResult() {
	events, _ := c.Events()
	c.Job.Outcome = druidv1alpha1.PodFailureReasonProcessFailure
	c.Job.Message = fmt.Sprintf("Attempt %d of the Job has compacted nothing: it ended without an error, and the newest full snapshot is the one with revision %s as before, with %d events since; the log of its pod says why",
		c.Job.Attempt, c.Job.BaseRevision, events)
}

// Decide returns the next action:
//
//  1. Without a backup store there is no Job.
//  2. Each outcome is recorded before anything new starts. Nothing new starts while the cluster is suspended or rolled back. While
//     snapshots may contain lost writes, there is no Job. A full snapshot replaces them as soon as it has a higher revision.
//  3. A Job that a task requests runs at any number of events. No full snapshot replaces it.
//  4. A Job runs if the events exceed EventsThreshold. A failed Job is retried with exponential backoff. A full snapshot
//     replaces the Job if the events exceed FullSnapshotThreshold, if a Job exceeded its deadline, or if the last attempt
//     failed. The operator requests one such snapshot for as long as its task exists.
//  5. A Job that a newer full snapshot made unnecessary is deleted.
func (c Input) Decide(now time.Time) Decision {
	if decision, decided := c.handleEnded(); decided {
		return decision
	}
	if c.Suspended {
		return Decision{Action: ActionNone, Reason: "the Etcd is suspended"}
	}
	if c.RolledBack && c.Job != nil && c.Job.Outcome == "" {
		return Decision{Action: ActionDeleteJob, Reason: "the cluster has lost acknowledged writes, and the snapshots in the store may contain them"}
	}
	if c.RolledBack {
		return Decision{Action: ActionNone, Reason: "the cluster has lost acknowledged writes, and the snapshots in the store may contain them: the condition RevisionConfirmed has the details"}
	}
	if c.LostRevision > 0 && c.FullSnapshotLease.Revision() <= c.LostRevision {
		return c.decideForLostWrites()
	}
	if c.Task != "" {
		return c.decideForTask(now)
	}
	if c.Job != nil && c.Job.Outcome == "" {
		if c.Job.Task != "" {
			return Decision{Action: ActionDeleteJob, Reason: "the task that requested the Job has ended"}
		}
		return Decision{Action: ActionNone, Reason: "the Job runs"}
	}
	if c.Job != nil && (c.Job.Outcome == druidv1alpha1.PodSuccessReasonNone || c.Job.Task != "") {
		return Decision{Action: ActionDeleteJob, Reason: "the Job is done"}
	}

	return c.decideByThresholds(now)
}

// handleEnded returns the action for a Job or a snapshot that ended, and for a Job that must not exist. It returns false if
// there is none.
func (c Input) handleEnded() (Decision, bool) {
	switch {
	case c.Job != nil && c.Job.Deleting:
		return Decision{Action: ActionNone, Reason: "the Job is being deleted"}, true
	case !c.HasStore && c.Job != nil:
		return Decision{Action: ActionDeleteJob, Reason: "there is no store any more"}, true
	case !c.HasStore:
		return Decision{Action: ActionNone, Reason: "there is no store"}, true
	case c.Job != nil && c.Job.Outcome == "" && c.Job.Disruption != "" && !c.Job.DisruptionRecorded:
		return Decision{Action: ActionNoteDisruption, Reason: "the pod of the Job is being ended"}, true
	case c.Job != nil && c.Job.Outcome != "" && !c.Job.Recorded:
		return Decision{Action: ActionRecordJob, Reason: "the Job has ended"}, true
	case c.Snapshot != nil && c.Snapshot.Ended && !c.Snapshot.Recorded:
		return Decision{Action: ActionRecordSnapshot, Reason: "the full snapshot has ended"}, true
	default:
		return Decision{}, false
	}
}

// decideForLostWrites returns the action while snapshots in the store may contain lost writes. A full snapshot replaces them as soon as it has a
// higher revision. The number of events counts nothing: the Lease of the delta snapshots may record a lost revision.
func (c Input) decideForLostWrites() Decision {
	const reason = "the snapshots in the store may contain lost writes"
	_, known := c.Events()
	isResultOfTask := c.Job != nil && c.Job.Outcome != "" && c.Task != "" && c.Job.Task == c.Task
	switch {
	case c.Job != nil && !isResultOfTask:
		return Decision{Action: ActionDeleteJob, Reason: reason}
	case c.Hibernated, !known, c.DeltaSnapshotLease.Revision() <= c.LostRevision:
		return Decision{Action: ActionNone, Reason: reason}
	default:
		return c.requestSnapshot(reason)
	}
}

// decideForTask returns the action while a task requests a Job.
func (c Input) decideForTask(now time.Time) Decision {
	switch {
	case c.Job == nil:
		return Decision{Action: ActionRunJob, Attempt: 1, Reason: "a task requests it"}
	case c.Job.Outcome == "":
		return Decision{Action: ActionNone, Reason: "a Job runs already"}
	case c.Job.Task != c.Task:
		return Decision{Action: ActionRunJob, Attempt: 1, Reason: "a task requests it, and the previous Job has ended"}
	case c.Job.IsLast():
		return Decision{Action: ActionNone, Reason: "the task takes up how its Job ended"}
	default:
		return c.retry(now)
	}
}

// IsLast is true if the Job ended and the same task gets no further attempt.
func (j Job) IsLast() bool {
	return j.Outcome == druidv1alpha1.PodSuccessReasonNone || j.Outcome != "" && !j.isRetriable()
}

// isRetriable is false for the last attempt, and for a Job that exceeded its deadline: the next Job would exceed it too.
func (j Job) isRetriable() bool {
	return j.Outcome != druidv1alpha1.JobFailureReasonDeadlineExceeded && j.Attempt < MaxAttempts
}

// decideByThresholds returns the action for the number of events. No Job is running, and none succeeded.
func (c Input) decideByThresholds(now time.Time) Decision {
	events, known := c.Events()
	if !known || c.EventsThreshold <= 0 || events < c.EventsThreshold {
		if c.Job != nil {
			return Decision{Action: ActionDeleteJob, Reason: "the Job is not needed any more"}
		}
		return Decision{Action: ActionNone, Reason: "there are few events since the last full snapshot"}
	}
	switch {
	case c.Hibernated:
		return Decision{Action: ActionNone, Reason: "the cluster hibernates"}
	case c.FullSnapshotThreshold > 0 && events >= c.FullSnapshotThreshold:
		return c.requestSnapshot(fmt.Sprintf("%d events are too many for a Job", events))
	case c.Job == nil && c.Snapshot != nil && c.Snapshot.BaseRevision == c.FullSnapshotLease.Holder:
		return c.requestSnapshot(fmt.Sprintf("%d events since the last one", events))
	case c.Job == nil:
		return Decision{Action: ActionRunJob, Attempt: 1, Reason: fmt.Sprintf("%d events since the last full snapshot", events)}
	case !c.Job.isRetriable():
		return c.requestSnapshot("the last Job has failed: " + c.Job.Outcome)
	default:
		return c.retry(now)
	}
}

// requestSnapshot requests a full snapshot, once for each full snapshot in the store.
func (c Input) requestSnapshot(reason string) Decision {
	if c.Snapshot != nil && (!c.Snapshot.Ended || c.Snapshot.BaseRevision == c.FullSnapshotLease.Holder) {
		return Decision{Action: ActionNone, Reason: "a full snapshot is requested: " + reason}
	}

	return Decision{Action: ActionTakeSnapshot, Reason: reason}
}

// retry returns the action that repeats a failed Job after a pause.
func (c Input) retry(now time.Time) Decision {
	pause := firstRetryPause << (c.Job.Attempt - 1)
	if wait := c.Job.EndTime.Add(pause).Sub(now); wait > 0 {
		return Decision{Action: ActionNone, RequeueAfter: wait, Reason: "the Job has failed and is repeated after a pause"}
	}

	return Decision{Action: ActionRunJob, Attempt: c.Job.Attempt + 1, Reason: "the Job before has failed: " + c.Job.Outcome}
}
