// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"fmt"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// firstRetryPause is the pause after the first failed attempt. Each further pause is twice as long.
const firstRetryPause = 10 * time.Second

// Task is the observed state of an EtcdOpsTask.
type Task struct {
	// State is the state in the status. Empty: the controller has not reconciled the task.
	State druidv1alpha1.TaskState
	// Deleting is true while the task is being deleted.
	Deleting bool
	// Since is the time of the last transition of State.
	Since time.Time
	// StartedAt is the time at which the task started. Zero: it has not started.
	StartedAt time.Time
	// TTL is the time for which a finished task is kept.
	TTL time.Duration
	// Refusal is the reason for which the task can never run. Nil: there is none.
	Refusal *Problem
	// NotAfter is the time after which no attempt starts. Zero: no limit.
	NotAfter time.Time
	// Precondition is an unmet precondition of the next attempt. Nil: all preconditions are met.
	Precondition *Problem
	// WaitsForTask is the name of the task of the same Etcd that runs first. Empty: this task is the first in the queue.
	WaitsForTask string
	// FailedAttempts is the number of failed attempts, and LastFailure the time of the last failure. Zero: no attempt failed.
	FailedAttempts int
	LastFailure    time.Time
	// Limits are the limits of the task.
	Limits Limits
	// Call is the state of the current attempt.
	Call Call
}

// Limits are the limits of a task.
type Limits struct {
	// Attempts is the largest number of attempts.
	Attempts int
	// Deadline is the longest time from the start of the task to its end. It includes all attempts and all waiting.
	Deadline time.Duration
}

// Problem is the reason for which a task does not proceed or failed.
type Problem struct {
	// Code is the error code.
	Code druidv1alpha1.ErrorCode
	// Message is human-readable.
	Message string
}

// Call is the state of the current attempt. The zero value means that no attempt is known, for example after a restart of the
// operator.
type Call struct {
	// Running is true while the attempt is running. Message describes it. Empty: the description of the task does not change.
	Running bool
	Message string
	// Ended is true if the attempt ended. Problem is then the reason of a failure. Nil: the attempt succeeded.
	Ended   bool
	Problem *Problem
	// Final is true if another attempt would fail too.
	Final bool
}

// Action is the next action for a task.
type Action string

const (
	// ActionWait means to report what the task waits for. There is nothing else to do.
	ActionWait Action = "Wait"
	// ActionAccept means to add the task to the queue.
	ActionAccept Action = "Accept"
	// ActionReject means to end the task without a start.
	ActionReject Action = "Reject"
	// ActionStart means to start the task, which is the first in the queue.
	ActionStart Action = "Start"
	// ActionTry means to start an attempt.
	ActionTry Action = "Try"
	// ActionTryAgain means to record a failed attempt. Another attempt follows after a pause.
	ActionTryAgain Action = "TryAgain"
	// ActionSucceed means to end the task as succeeded.
	ActionSucceed Action = "Succeed"
	// ActionFail means to end the task as failed.
	ActionFail Action = "Fail"
	// ActionDelete means to delete the task, whose TTL has expired.
	ActionDelete Action = "Delete"
	// ActionRelease means to stop the call of the task, and to remove the finalizer.
	ActionRelease Action = "Release"
)

// Decision is the next action for a task.
type Decision struct {
	// Action is the next action.
	Action Action
	// Problem is the reason of a rejection, a retry or a failure. Nil for every other action.
	Problem *Problem
	// Message states what the task waits for, or what its attempt does. Empty: neither.
	Message string
	// RequeueAfter is the time until the next reconciliation. 0: a watch event triggers it.
	RequeueAfter time.Duration
}

// Decide returns the next action. A task joins the queue of its Etcd, and starts when it is the first. Each attempt waits for
// its precondition. A finished task is kept for its TTL.
func (t Task) Decide(now time.Time) Decision {
	switch {
	case t.Deleting:
		return Decision{Action: ActionRelease}
	case t.State == "":
		return Decision{Action: ActionAccept}
	case t.State == druidv1alpha1.TaskStatePending:
		return t.pending(now)
	case t.State == druidv1alpha1.TaskStateInProgress:
		return t.inProgress(now)
	default:
		if left := t.Since.Add(t.TTL).Sub(now); left > 0 {
			return Decision{Action: ActionWait, RequeueAfter: left}
		}
		return Decision{Action: ActionDelete}
	}
}

func (t Task) pending(now time.Time) Decision {
	switch {
	case t.Refusal != nil:
		return Decision{Action: ActionReject, Problem: t.Refusal}
	case t.isTooLate(now):
		return Decision{Action: ActionReject, Problem: t.tooLateProblem()}
	case t.WaitsForTask != "":
		return Decision{Action: ActionWait, Message: "Waiting for EtcdOpsTask " + t.WaitsForTask + " to end", RequeueAfter: t.untilTooLate(now)}
	default:
		return Decision{Action: ActionStart}
	}
}

func (t Task) inProgress(now time.Time) Decision {
	left := t.StartedAt.Add(t.Limits.Deadline).Sub(now)
	switch {
	case t.Call.Ended && t.Call.Problem == nil:
		return Decision{Action: ActionSucceed}
	case t.Call.Ended && (t.Call.Final || t.FailedAttempts+1 >= t.Limits.Attempts):
		return Decision{Action: ActionFail, Problem: t.Call.Problem}
	case t.Call.Ended:
		return Decision{Action: ActionTryAgain, Problem: t.Call.Problem}
	case t.Refusal != nil:
		return Decision{Action: ActionFail, Problem: t.Refusal}
	case left <= 0:
		return Decision{Action: ActionFail, Problem: t.deadlineProblem()}
	case t.Call.Running:
		return Decision{Action: ActionWait, Message: t.Call.Message, RequeueAfter: left}
	}

	return t.nextAttempt(now, left)
}

// nextAttempt starts an attempt if the precondition is met and the pause has ended.
func (t Task) nextAttempt(now time.Time, left time.Duration) Decision {
	if t.FailedAttempts > 0 {
		pause := firstRetryPause << (t.FailedAttempts - 1)
		if wait := t.LastFailure.Add(pause).Sub(now); wait > 0 {
			return Decision{Action: ActionWait, RequeueAfter: min(wait, left), Message: fmt.Sprintf("Attempt %d of %d follows after a pause", t.FailedAttempts+1, t.Limits.Attempts)}
		}
	}
	if t.isTooLate(now) {
		return Decision{Action: ActionFail, Problem: t.tooLateProblem()}
	}
	if t.Precondition != nil {
		return Decision{Action: ActionWait, RequeueAfter: left, Message: t.Precondition.Message}
	}

	return Decision{Action: ActionTry}
}

// isTooLate is true if no attempt may start any more.
func (t Task) isTooLate(now time.Time) bool { return !t.NotAfter.IsZero() && !now.Before(t.NotAfter) }

// untilTooLate is the time until isTooLate. 0: it never is.
func (t Task) untilTooLate(now time.Time) time.Duration {
	if t.NotAfter.IsZero() {
		return 0
	}

	return t.NotAfter.Sub(now)
}

func (t Task) tooLateProblem() *Problem {
	return &Problem{Code: druidv1alpha1.ErrorCodeOperationCancelled, Message: fmt.Sprintf("The task may not start after %s", t.NotAfter.UTC().Format(time.RFC3339))}
}

// deadlineProblem returns the problem of a task that exceeded its deadline.
func (t Task) deadlineProblem() *Problem {
	if t.Precondition != nil && !t.Call.Running {
		return &Problem{Code: t.Precondition.Code, Message: fmt.Sprintf("%s; that took longer than %s", t.Precondition.Message, t.Limits.Deadline)}
	}

	return &Problem{Code: druidv1alpha1.ErrorCodeOperationCancelled, Message: fmt.Sprintf("The task took longer than %s", t.Limits.Deadline)}
}
