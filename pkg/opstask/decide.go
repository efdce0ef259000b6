// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"fmt"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// firstRetryPause is the pause after the first attempt of a task that failed; each further one is twice as long.
const firstRetryPause = 10 * time.Second

// Task is what is known about an EtcdOpsTask.
type Task struct {
	// State of the task. Empty: nobody has looked at it.
	State druidv1alpha1.TaskState
	// Deleting is true while it is being deleted.
	Deleting bool
	// Since is when it came into its state.
	Since time.Time
	// StartedAt is when it was begun. Zero: it was not.
	StartedAt time.Time
	// TTL is how long it is kept after it has ended.
	TTL time.Duration
	// Refusal is why the task can never be done. Nil: it can.
	Refusal *Problem
	// Precondition is what is in the way of the task now. Nil: nothing is.
	Precondition *Problem
	// WaitsForTask is the name of the task on the same Etcd whose turn is first. Empty: it is this one's turn.
	WaitsForTask string
	// FailedAttempts is the number of attempts that have failed, LastFailure when the last one did.
	FailedAttempts int
	LastFailure    time.Time
	// Limits bound the task.
	Limits Limits
	// Call is how the current attempt is.
	Call Call
}

// Limits bound a task.
type Limits struct {
	// Attempts is how often it is tried.
	Attempts int
	// Deadline is how long it may take from its start, with all attempts and all that it waits for.
	Deadline time.Duration
}

// Problem is why a task is not done.
type Problem struct {
	// Code of the error.
	Code druidv1alpha1.ErrorCode
	// Message for people.
	Message string
}

// Call is how the current attempt is. The zero value: nothing was begun, or nobody remembers it.
type Call struct {
	// Running is true while it is under way.
	Running bool
	// Ended is true when it is over. Problem is then why it failed; nil: it did not.
	Ended   bool
	Problem *Problem
	// Final is true when another attempt would fail too.
	Final bool
}

// Action is what is to be done next with a task.
type Action string

const (
	// ActionWait means that nothing is to be done, but to say what is waited for.
	ActionWait Action = "Wait"
	// ActionAccept means that the task joins the queue.
	ActionAccept Action = "Accept"
	// ActionReject means that the task ends without having been begun.
	ActionReject Action = "Reject"
	// ActionStart means that it is the task's turn.
	ActionStart Action = "Start"
	// ActionTry means that an attempt has to be made.
	ActionTry Action = "Try"
	// ActionTryAgain means that the attempt has failed and that another follows after a pause.
	ActionTryAgain Action = "TryAgain"
	// ActionSucceed means that the task ends well.
	ActionSucceed Action = "Succeed"
	// ActionFail means that the task ends as failed.
	ActionFail Action = "Fail"
	// ActionDelete means that the task was kept for long enough.
	ActionDelete Action = "Delete"
	// ActionRelease means that whatever runs for the task has to end, so that it can be gone.
	ActionRelease Action = "Release"
)

// Decision is what is to be done next with a task.
type Decision struct {
	// Action is what is to be done next.
	Action Action
	// Problem is why the task is rejected, tried again or has failed.
	Problem *Problem
	// Message says what is waited for, for people. Empty: nothing.
	Message string
	// RequeueAfter is when to look again. 0: an event will tell.
	RequeueAfter time.Duration
}

// Decide returns what is to be done next. A task joins the queue of its Etcd, is begun when it is its turn, waits for what is
// in its way, is tried as often as its limits allow, and is kept for a while after it has ended.
func (t Task) Decide(now time.Time) Decision {
	switch {
	case t.Deleting:
		return Decision{Action: ActionRelease}
	case t.State == "":
		return Decision{Action: ActionAccept}
	case t.State == druidv1alpha1.TaskStatePending:
		return t.pending()
	case t.State == druidv1alpha1.TaskStateInProgress:
		return t.inProgress(now)
	default:
		if left := t.Since.Add(t.TTL).Sub(now); left > 0 {
			return Decision{Action: ActionWait, RequeueAfter: left}
		}
		return Decision{Action: ActionDelete}
	}
}

func (t Task) pending() Decision {
	switch {
	case t.Refusal != nil:
		return Decision{Action: ActionReject, Problem: t.Refusal}
	case t.WaitsForTask != "":
		return Decision{Action: ActionWait, Message: "Waiting for EtcdOpsTask " + t.WaitsForTask + " to end"}
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
		return Decision{Action: ActionWait, RequeueAfter: left}
	}

	return t.nextAttempt(now, left)
}

// nextAttempt makes another attempt, when nothing is in its way and the pause is over.
func (t Task) nextAttempt(now time.Time, left time.Duration) Decision {
	if t.FailedAttempts > 0 {
		pause := firstRetryPause << (t.FailedAttempts - 1)
		if wait := t.LastFailure.Add(pause).Sub(now); wait > 0 {
			return Decision{Action: ActionWait, RequeueAfter: min(wait, left), Message: fmt.Sprintf("Attempt %d of %d follows after a pause", t.FailedAttempts+1, t.Limits.Attempts)}
		}
	}
	if t.Precondition != nil {
		return Decision{Action: ActionWait, RequeueAfter: left, Message: t.Precondition.Message}
	}

	return Decision{Action: ActionTry}
}

// deadlineProblem is the problem of a task that has used up its time.
func (t Task) deadlineProblem() *Problem {
	if t.Precondition != nil && !t.Call.Running {
		return &Problem{Code: t.Precondition.Code, Message: fmt.Sprintf("%s; that took longer than %s", t.Precondition.Message, t.Limits.Deadline)}
	}

	return &Problem{Code: druidv1alpha1.ErrorCodeOperationCancelled, Message: fmt.Sprintf("The task took longer than %s", t.Limits.Deadline)}
}
