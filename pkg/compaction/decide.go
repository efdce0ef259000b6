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

// MaxAttempts is how many Jobs are run, one after the other, before a full snapshot is taken instead.
const MaxAttempts = 3

// firstRetryPause is the pause after the first Job that failed; each further one is twice as long.
const firstRetryPause = time.Minute

// Input is what is known about the compaction of the snapshots of one Etcd.
type Input struct {
	// HasStore is true when there are snapshots at all, and a pod may be run to compact them.
	HasStore bool
	// Suspended is true while nothing may be begun.
	Suspended bool
	// Hibernated is true while no member runs that could take a full snapshot, or change anything.
	Hibernated bool
	// FullSnapshotLease and DeltaSnapshotLease hold the newest revisions in the store.
	FullSnapshotLease, DeltaSnapshotLease etcdcluster.Lease
	// StoreLocation is the store that is used now, as the leases name theirs. Empty: not known.
	StoreLocation string
	// EventsThreshold is the number of events since the last full snapshot from which on a Job runs. 0: none is run by itself.
	EventsThreshold int64
	// FullSnapshotThreshold is the number of events from which on a full snapshot is taken instead. 0: none is.
	FullSnapshotThreshold int64
	// Job is what was seen of the Job. Nil: there is none.
	Job *Job
	// Snapshot is what was seen of the newest full snapshot that was asked for instead. Nil: none was.
	Snapshot *Snapshot
	// Task is the UID of the running EtcdOpsTask that asks for a Job. Empty: none does.
	Task types.UID
}

// Job is what was seen of a Job that compacts snapshots.
type Job struct {
	// Deleting is true while it is being deleted.
	Deleting bool
	// Outcome is why it ended, one of the reasons of LastSnapshotCompactionSucceeded. Empty: it runs.
	Outcome string
	// Message says more about Outcome, for people.
	Message string
	// Disruption is why its pod is being ended from outside. Empty: it is not.
	Disruption string
	// DisruptionRecorded is true when Disruption is written on the Job, so that it is known when the pod is gone.
	DisruptionRecorded bool
	// Recorded is true when condition and metrics show the outcome.
	Recorded bool
	// StartTime and EndTime are when it began and ended. Zero: it has not.
	StartTime, EndTime time.Time
	// Attempt is the number of the attempt, from 1.
	Attempt int
	// Task is the UID of the task that asked for it. Empty: none did.
	Task types.UID
	// BaseRevision is the revision of the full snapshot that there was when it was made. Empty: there was none, or a version
	// of the operator made the Job that did not note it.
	BaseRevision string
}

// Snapshot is what was seen of a full snapshot that was asked for instead of a Job.
type Snapshot struct {
	// BaseRevision is the revision of the full snapshot that there was when it was asked for.
	BaseRevision string
	// Ended is true when it was taken or has failed.
	Ended bool
	// Taken is true when it was taken.
	Taken bool
	// Recorded is true when condition and metrics show the outcome.
	Recorded bool
	// Message says how it ended, for people.
	Message string
}

// Action is what is to be done next.
type Action string

const (
	// ActionNone means that nothing is to be done.
	ActionNone Action = "None"
	// ActionNoteDisruption means that the Job has to be told why its pod is being ended.
	ActionNoteDisruption Action = "NoteDisruption"
	// ActionRecordJob means that condition and metrics have to show how the Job ended.
	ActionRecordJob Action = "RecordJob"
	// ActionRecordSnapshot means that condition and metrics have to show how the full snapshot ended.
	ActionRecordSnapshot Action = "RecordSnapshot"
	// ActionDeleteJob means that the Job is of no use any more.
	ActionDeleteJob Action = "DeleteJob"
	// ActionRunJob means that a Job has to be created, in the place of the one that there may be.
	ActionRunJob Action = "RunJob"
	// ActionTakeSnapshot means that a full snapshot has to be asked for.
	ActionTakeSnapshot Action = "TakeSnapshot"
)

// Decision is what is to be done next, and why.
type Decision struct {
	// Action is what is to be done next.
	Action Action
	// Attempt is the number of the Job to be created, from 1.
	Attempt int
	// RequeueAfter is when something may be done of which no event tells. 0: every change is told by an event.
	RequeueAfter time.Duration
	// Reason says why, for logs.
	Reason string
}

// Events returns the number of events since the last full snapshot; false when the leases do not tell, since there are no
// snapshots yet, or since they tell of a store that is used no longer.
func (c Input) Events() (int64, bool) {
	if etcdcluster.IsInOtherStore(c.FullSnapshotLease, c.StoreLocation) || etcdcluster.IsInOtherStore(c.DeltaSnapshotLease, c.StoreLocation) {
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

// HasNoResult is true for a Job that has ended without an error while the newest full snapshot is still the one that there was
// before, and there are events since then. The process ends so where it finds nothing in the store that it could compact.
func (c Input) HasNoResult() bool {
	if c.Job == nil || c.Job.Recorded || c.Job.Outcome != druidv1alpha1.PodSuccessReasonNone {
		return false
	}
	events, known := c.Events()

	return known && events > 0 && c.Job.BaseRevision == c.FullSnapshotLease.Holder
}

// MarkFailedWithoutResult lets the Job have failed, which HasNoResult.
func (c *Input) MarkFailedWithoutResult() {
	events, _ := c.Events()
	c.Job.Outcome = druidv1alpha1.PodFailureReasonProcessFailure
	c.Job.Message = fmt.Sprintf("Attempt %d of the Job has compacted nothing: it ended without an error, and the newest full snapshot is the one with revision %s as before, with %d events since; the log of its pod says why",
		c.Job.Attempt, c.Job.BaseRevision, events)
}

// Decide returns what is to be done next:
//
//  1. Without a store there is no Job.
//  2. What has ended is recorded before anything else begins.
//  3. A Job that a task asks for is run whatever the thresholds say; nothing else is asked for in its stead.
//  4. From one threshold on a Job is run; it is repeated after pauses that grow. From another threshold on, when a Job took too
//     long, or when the last attempt has failed, a full snapshot is taken instead, once for as long as the task that takes it
//     is remembered.
//  5. A Job that is not needed any more, since a full snapshot was taken meanwhile, is deleted.
func (c Input) Decide(now time.Time) Decision {
	if decision, decided := c.handleEnded(); decided {
		return decision
	}
	if c.Suspended {
		return Decision{Action: ActionNone, Reason: "the Etcd is suspended"}
	}
	if c.Task != "" {
		return c.decideForTask(now)
	}
	if c.Job != nil && c.Job.Outcome == "" {
		if c.Job.Task != "" {
			return Decision{Action: ActionDeleteJob, Reason: "the task that asked for the Job has ended"}
		}
		return Decision{Action: ActionNone, Reason: "the Job runs"}
	}
	if c.Job != nil && (c.Job.Outcome == druidv1alpha1.PodSuccessReasonNone || c.Job.Task != "") {
		return Decision{Action: ActionDeleteJob, Reason: "the Job is done"}
	}

	return c.decideByThresholds(now)
}

// handleEnded deals with what has ended or must not be; false when nothing has.
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

// decideForTask runs the Job that a task asks for.
func (c Input) decideForTask(now time.Time) Decision {
	switch {
	case c.Job == nil:
		return Decision{Action: ActionRunJob, Attempt: 1, Reason: "a task asks for it"}
	case c.Job.Outcome == "":
		return Decision{Action: ActionNone, Reason: "a Job runs already"}
	case c.Job.Task != c.Task:
		return Decision{Action: ActionRunJob, Attempt: 1, Reason: "a task asks for it, and the Job that there is has ended"}
	case c.Job.IsLast():
		return Decision{Action: ActionNone, Reason: "the task takes up how its Job ended"}
	default:
		return c.retry(now)
	}
}

// IsLast is true when the Job has ended and no other is run for the same task.
func (j Job) IsLast() bool {
	return j.Outcome == druidv1alpha1.PodSuccessReasonNone || j.Outcome != "" && !j.isRetriable()
}

// isRetriable is false for a Job whose time limit the next one would exceed too, and for the last attempt.
func (j Job) isRetriable() bool {
	return j.Outcome != druidv1alpha1.JobFailureReasonDeadlineExceeded && j.Attempt < MaxAttempts
}

// decideByThresholds decides from the number of events, when no Job runs and none has succeeded.
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
		return c.requestSnapshot("a full snapshot was asked for already")
	case c.Job == nil:
		return Decision{Action: ActionRunJob, Attempt: 1, Reason: fmt.Sprintf("%d events since the last full snapshot", events)}
	case !c.Job.isRetriable():
		return c.requestSnapshot("the last Job has failed: " + c.Job.Outcome)
	default:
		return c.retry(now)
	}
}

// requestSnapshot asks for a full snapshot, once for each that there is.
func (c Input) requestSnapshot(reason string) Decision {
	if c.Snapshot != nil && (!c.Snapshot.Ended || c.Snapshot.BaseRevision == c.FullSnapshotLease.Holder) {
		return Decision{Action: ActionNone, Reason: "a full snapshot was asked for: " + reason}
	}

	return Decision{Action: ActionTakeSnapshot, Reason: reason}
}

// retry repeats the Job that has failed, after a pause.
func (c Input) retry(now time.Time) Decision {
	pause := firstRetryPause << (c.Job.Attempt - 1)
	if wait := c.Job.EndTime.Add(pause).Sub(now); wait > 0 {
		return Decision{Action: ActionNone, RequeueAfter: wait, Reason: "the Job has failed and is repeated after a pause"}
	}

	return Decision{Action: ActionRunJob, Attempt: c.Job.Attempt + 1, Reason: "the Job before has failed: " + c.Job.Outcome}
}
