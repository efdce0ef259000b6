// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const (
	// incompletePause is the time until the next drill after one that was incomplete. snapshotPause is the time until the next full snapshot after one
	// that has failed. They double up to maxPause.
	incompletePause = time.Hour
	snapshotPause   = 10 * time.Minute
	maxPause        = 24 * time.Hour
	// limitPause is the time until the next attempt to start a drill while others run, or while the cluster is not ready.
	limitPause = time.Minute
	// shortUID is the length of the part of a UID in the name of a task.
	shortUID = 8
)

// Input is the observed state from which Decide computes the next action for one Etcd.
type Input struct {
	// UID of the Etcd. It determines when in a period a drill runs, so that those of many Etcds are spread.
	UID types.UID
	// Blocked is why no drill can run, for example because the cluster hibernates. Empty: one can.
	Blocked string
	// WaitsFor is what the next task would wait for, for example because the cluster is not ready. Empty: nothing.
	WaitsFor string
	// Period is the time between two scheduled drills. 0: none is scheduled.
	Period time.Duration
	// Store is the current store, as text.
	Store string
	// Record is the record of earlier drills.
	Record state.RestoreDrill
	// Job is the Job of the newest drill. Nil: there is none.
	Job *Job
	// Tasks are the EtcdOpsTasks that run a drill.
	Tasks []Task
	// Snapshot is the newest EtcdOpsTask with a full snapshot after the drill of Record.Repair. Nil: there is none.
	Snapshot *Task
	// Running is the number of scheduled drills of all Etcds that run, and Limit is the number at which no further one is scheduled.
	Running, Limit int
}

// Task is the observed state of an EtcdOpsTask.
type Task struct {
	// UID of the task.
	UID types.UID
	// Follows is the UID of the task of the drill that has found a fault, and after which this one runs. Empty: there is none.
	Follows types.UID
	// EndedAt is when the task ended. Zero: it has not.
	EndedAt time.Time
	// Failure is why the task has failed. Empty: it has not. MembersDiffer is true if the reason is that the members have different data.
	Failure       string
	MembersDiffer bool
}

// Action is the next action of the controller.
type Action string

const (
	// ActionNone means that there is nothing to do.
	ActionNone Action = "None"
	// ActionRecord means to write Decision.Record into the record.
	ActionRecord Action = "Record"
	// ActionMarkJob means to write on the Job that the record contains its result.
	ActionMarkJob Action = "MarkJob"
	// ActionTakeSnapshot means to request a full snapshot, because a drill has found a fault.
	ActionTakeSnapshot Action = "TakeSnapshot"
	// ActionRunDrill means to request a drill.
	ActionRunDrill Action = "RunDrill"
)

// Decision is the next action and its reason.
type Decision struct {
	// Action is the next action.
	Action Action
	// Record is what to record.
	Record state.RestoreDrill
	// Result is the result that Record adds. Nil: none.
	Result *state.DrillResult
	// ID is a part of the name of the task to create, so that the operator creates it once.
	ID string
	// Follows is the UID of the task of the drill that has found a fault. Empty: the drill is scheduled.
	Follows types.UID
	// RequeueAfter is the time until the next decision. 0: a watch event triggers it.
	RequeueAfter time.Duration
	// Reason explains the decision. Logs and events show it.
	Reason string
}

// Decide returns the next action:
//
//  1. The result of a drill is recorded before anything else.
//  2. After a fault that a full snapshot can repair, one is taken at once, and a second drill follows. The record contains both, so that there is one full
//     snapshot until the next proof. The number of drills in the fleet does not limit the second drill: it follows one that has just ended. After another
//     fault, the snapshots stay as they are.
//  3. A scheduled drill runs once in each period, at a time that the UID determines. It waits while many drills of other Etcds run. An incomplete one
//     is repeated after an hour, and later after longer pauses.
func (in Input) Decide(now time.Time) Decision {
	if decision, decided := in.record(now); decided {
		return decision
	}
	if in.Blocked != "" {
		return Decision{Action: ActionNone, Reason: in.Blocked}
	}
	if slices.ContainsFunc(in.Tasks, func(task Task) bool { return task.EndedAt.IsZero() }) {
		return Decision{Action: ActionNone, Reason: "a drill has not ended"}
	}
	decision := in.next(now)
	if in.WaitsFor != "" && (decision.Action == ActionRunDrill || decision.Action == ActionTakeSnapshot) {
		return Decision{Action: ActionNone, RequeueAfter: limitPause, Reason: "waiting for " + in.WaitsFor}
	}

	return decision
}

// next returns the next action after a fault, or that of the schedule.
func (in Input) next(now time.Time) Decision {
	if fault := in.Record.FaultIn(in.Store); fault != nil && fault.IsRepairable() && !fault.Repeats {
		return in.repair(*fault, now)
	}

	return in.schedule(now)
}

// record returns the action that records the result of a Job or a task, or the schedule.
func (in Input) record(now time.Time) (Decision, bool) {
	if ended := in.Job; ended != nil && ended.Result != nil && ended.Recorded == "" {
		if last := in.Record.Last; last != nil && last.Job == ended.UID {
			return Decision{Action: ActionMarkJob, Result: last, Reason: "the record contains the result of the Job"}, true
		}

		return Decision{Action: ActionRecord, Record: in.Record.With(*ended.Result, ended.Proof), Result: ended.Result, Reason: "the Job has ended"}, true
	}
	if result := in.failedWithoutJob(); result != nil {
		return Decision{Action: ActionRecord, Record: in.Record.With(*result, nil), Result: result, Reason: "the task has ended without a result"}, true
	}
	if record, reason := in.scheduled(now); reason != "" {
		return Decision{Action: ActionRecord, Record: record, Reason: reason}, true
	}

	return Decision{}, false
}

// scheduled returns the record with the current schedule, and the reason for which it has changed. Empty: it has not. The proof of a store becomes outdated
// only while its drills can run.
func (in Input) scheduled(now time.Time) (record state.RestoreDrill, reason string) {
	record = in.Record
	record.Period = state.Duration(in.Period)
	if in.Period == 0 {
		record.Since, record.Blocked, record.Store = time.Time{}, "", ""
	} else {
		record.Blocked, record.Store = in.Blocked, in.Store
	}
	isOther := in.Record.Store != "" && !state.IsSameStore(in.Record.Store, in.Store)
	switch {
	case record.Period != in.Record.Period:
		reason = "the period has changed"
	case isOther:
		reason = "the store has changed"
	case record.Blocked != in.Record.Blocked:
		reason = "another reason blocks drills, or none does"
	case in.Period > 0 && in.Record.Store == "" && in.Store != "":
		reason = "the store is known"
	}
	if in.Period > 0 && (record.Since.IsZero() || isOther || record.Blocked == "" && in.Record.Blocked != "") {
		record.Since = now.UTC().Truncate(time.Second)
	}

	return record, reason
}

// failedWithoutJob returns the result of the newest task that has failed, if no Job has left one.
func (in Input) failedWithoutJob() *state.DrillResult {
	var newest *Task
	for i := range in.Tasks {
		if task := &in.Tasks[i]; task.Failure != "" && (newest == nil || task.EndedAt.After(newest.EndedAt)) {
			newest = task
		}
	}
	if newest == nil || in.isRecorded(*newest) {
		return nil
	}

	result := &state.DrillResult{
		Task: newest.UID, EndedAt: newest.EndedAt.UTC(), Store: in.Store, Repeats: newest.Follows != "",
		Reason: druidv1alpha1.ReasonDrillIncomplete, Message: newest.Failure,
	}
	if newest.MembersDiffer {
		result.Reason = druidv1alpha1.ReasonMembersDiffer
	}

	return result
}

// isRecorded is true if the record contains the result of a task that has failed, or that of a later drill. The Job of an earlier attempt can have been
// incomplete before another attempt has found that the members have different data.
func (in Input) isRecorded(task Task) bool {
	last := in.Record.Last
	switch {
	case last == nil || task.EndedAt.After(last.EndedAt) && last.Task != task.UID:
		return false
	case last.Task == task.UID:
		return !task.MembersDiffer || last.Reason == druidv1alpha1.ReasonMembersDiffer
	default:
		return true
	}
}

// repair returns the action after a drill that has found a fault. A drill that a user requested can find another fault meanwhile.
func (in Input) repair(fault state.DrillResult, now time.Time) Decision {
	repair := in.Record.RepairOf(in.Store)
	switch {
	case repair == nil:
		return in.recordRepair(state.DrillRepair{Fault: fault.Task, Store: in.Store}, "a full snapshot follows a fault: "+fault.Reason)
	case repair.SnapshotAt.IsZero():
		return in.repairSnapshot(*repair, now)
	case fault.EndedAt.After(repair.SnapshotAt):
		return in.schedule(now) // the full snapshot did not help
	}
	retryAt := time.Time{}
	if repair.Incomplete > 0 {
		retryAt = repair.DrilledAt.Add(backOff(incompletePause, repair.Incomplete))
	}
	for _, task := range in.Tasks {
		if again := task.EndedAt.Add(incompletePause); task.Follows == repair.Fault && again.After(retryAt) {
			retryAt = again
		}
	}
	if wait := retryAt.Sub(now); wait > 0 {
		return Decision{Action: ActionNone, RequeueAfter: wait, Reason: "the drill after a fault was incomplete"}
	}

	return Decision{Action: ActionRunDrill, ID: numbered(repair.Fault, repair.Incomplete), Follows: repair.Fault, Reason: "a full snapshot was taken after a fault"}
}

// repairSnapshot returns the action until the full snapshot after a fault is taken. It waits longer after each one that has failed.
func (in Input) repairSnapshot(repair state.DrillRepair, now time.Time) Decision {
	switch taken := in.Snapshot; {
	case taken == nil:
	case taken.EndedAt.IsZero():
		return Decision{Action: ActionNone, Reason: "the full snapshot after a fault is taken"}
	case taken.Failure == "":
		repair.SnapshotAt, repair.Failures, repair.FailedAt, repair.Failure = taken.EndedAt.UTC(), 0, time.Time{}, ""

		return in.recordRepair(repair, "the full snapshot after a fault was taken")
	case taken.EndedAt.After(repair.FailedAt):
		repair.Failures++
		repair.FailedAt, repair.Failure = taken.EndedAt.UTC(), taken.Failure

		return in.recordRepair(repair, "the full snapshot after a fault has failed")
	}
	if wait := repair.FailedAt.Add(backOff(snapshotPause, repair.Failures)).Sub(now); repair.Failures > 0 && wait > 0 {
		return Decision{Action: ActionNone, RequeueAfter: wait, Reason: "the full snapshot after a fault has failed: " + repair.Failure}
	}

	return Decision{Action: ActionTakeSnapshot, ID: numbered(repair.Fault, repair.Failures), Follows: repair.Fault, Reason: in.Record.Fault.Reason}
}

// recordRepair returns the action that records what the operator does after a fault.
func (in Input) recordRepair(repair state.DrillRepair, reason string) Decision {
	record := in.Record
	record.Repair = &repair

	return Decision{Action: ActionRecord, Record: record, Reason: reason}
}

// backOff returns the pause after a number of failures.
func backOff(first time.Duration, failures int) time.Duration {
	pause := first
	for range failures - 1 {
		pause = min(2*pause, maxPause)
	}

	return pause
}

// numbered returns the first part of a UID, with a number if there were tasks before.
func numbered(uid types.UID, before int) string {
	if before == 0 {
		return short(uid)
	}

	return fmt.Sprintf("%s-%d", short(uid), before)
}

// short returns the first part of a UID.
func short(uid types.UID) string { return string(uid)[:min(shortUID, len(uid))] }

// schedule returns the action of the schedule.
func (in Input) schedule(now time.Time) Decision {
	if in.Period <= 0 {
		return Decision{Action: ActionNone, Reason: "no drill is scheduled"}
	}
	due := in.slot(now)
	after := in.Record.Since
	if last := in.Record.Last; last != nil {
		if retryAt := in.retryAt(); !retryAt.IsZero() && !retryAt.After(now) {
			return in.unlessLimited(Decision{Action: ActionRunDrill, ID: strconv.FormatInt(last.EndedAt.Unix(), 10), Reason: "the last drill was incomplete"})
		}
		if last.Store != "" && !state.IsSameStore(last.Store, in.Store) {
			return in.unlessLimited(Decision{Action: ActionRunDrill, ID: strconv.FormatInt(in.Record.Since.Unix(), 10), Reason: "the store has changed"})
		}
		if last.EndedAt.After(after) {
			after = last.EndedAt
		}
	}
	if !due.After(after) {
		return Decision{Action: ActionNone, RequeueAfter: in.nextScheduled(now, due), Reason: "the next drill is not due"}
	}

	return in.unlessLimited(Decision{Action: ActionRunDrill, ID: strconv.FormatInt(due.Unix(), 10), Reason: fmt.Sprintf("one is scheduled every %s", in.Period)})
}

// nextScheduled returns the time until the next scheduled drill, or until an incomplete one is repeated.
func (in Input) nextScheduled(now, due time.Time) time.Duration {
	next := due.Add(in.Period).Sub(now)
	if retryAt := in.retryAt(); !retryAt.IsZero() {
		next = min(next, retryAt.Sub(now))
	}

	return next
}

// retryAt returns when an incomplete drill is repeated. Zero: the last drill was not incomplete.
func (in Input) retryAt() time.Time {
	if last := in.Record.Last; last != nil && last.Reason == druidv1alpha1.ReasonDrillIncomplete {
		return last.EndedAt.Add(min(backOff(incompletePause, in.Record.Incomplete), in.Period))
	}

	return time.Time{}
}

// unlessLimited returns the decision, or to wait while many drills run.
func (in Input) unlessLimited(decision Decision) Decision {
	if in.Running < in.Limit {
		return decision
	}

	return Decision{Action: ActionNone, RequeueAfter: limitPause, Reason: fmt.Sprintf("%d scheduled drills of all Etcds run", in.Running)}
}

// slot returns the last time until now at which a drill is scheduled. These times are a period apart, and the UID determines the first one.
func (in Input) slot(now time.Time) time.Time {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(in.UID))                    // it returns no error
	offset := time.Duration(hash.Sum64()>>1) % in.Period // #nosec G115 -- half of the range is positive

	return now.Add(-offset).UTC().Truncate(in.Period).Add(offset)
}
