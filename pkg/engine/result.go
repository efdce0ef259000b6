// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// FallbackResync is when an Etcd that waits is reconciled again even if no watch reports a change.
const FallbackResync = time.Minute

// Result is the outcome of one reconciliation, in the terms of the status and of the work queue.
type Result struct {
	// State of status.lastOperation.
	State druidv1alpha1.LastOperationState
	// Description of status.lastOperation, and message of the condition Reconciled.
	Description string
	// Reason of the condition Reconciled.
	Reason string
	// KeepOperation leaves status.lastOperation and status.lastErrors as they were.
	KeepOperation bool
	// EventType and EventReason belong to the event that is emitted when the condition Reconciled changes. Empty: none.
	EventType, EventReason string
	// Errors are status.lastErrors; their time is left to the status patch. Empty on success and while waiting.
	Errors []druidv1alpha1.LastError
	// RequeueAfter is when to reconcile again if no watch reports a change before. 0: never.
	RequeueAfter time.Duration
	// Err goes to the work queue, which repeats the reconciliation with backoff. Nil: it does not.
	Err error
	// Newest is the run of the newest generation. Nil for a deletion.
	Newest *Run
	// Accepted is the run of the last accepted generation while the newest one is blocked. Nil: there was none.
	Accepted *Run
	// Requests are the annotations to remove.
	Requests []Request
	// EndsVerification is true if the result of the Job that verifies a restore was used, or is not needed any more. The caller records that on
	// the Job before it removes annotations. A later restore then needs another Job.
	EndsVerification bool
}

// Current returns the run whose generation was reconciled.
func (r *Result) Current() *Run {
	if r.Accepted != nil {
		return r.Accepted
	}

	return r.Newest
}

// SetObservedGeneration sets the observed generation of a status if a generation is completed.
func (r *Result) SetObservedGeneration(status *druidv1alpha1.EtcdStatus) {
	if run := r.Current(); run != nil && run.Completed {
		status.ObservedGeneration = new(run.Target.Stored.Generation)
	}
}

// JoinedCluster returns the record of the joined cluster for the status of an Etcd. It omits the members that were removed from etcd, see
// planner.HasRemovedExisting. Nil: no member is left.
func (r *Result) JoinedCluster(status druidv1alpha1.EtcdStatus, now time.Time) *druidv1alpha1.BootstrapWithExistingClusterStatus {
	run, joined := r.Current(), status.BootstrapWithExistingCluster
	if joined == nil || run == nil || !run.Observed || run.Target.Accepted == nil || !planner.HasRemovedExisting(run.Target.Etcd, run.Observation, now) {
		return joined
	}
	left := joined.DeepCopy()
	left.Members = slices.DeleteFunc(left.Members, func(m druidv1alpha1.BootstrapJoinedMember) bool {
		return slices.ContainsFunc(etcdcluster.LeavingExisting(run.Target.Etcd), func(l druidv1alpha1.BootstrapJoinedMember) bool { return l.Name == m.Name })
	})
	if len(left.Members) == 0 {
		return nil
	}

	return left
}

// ResultOf translates the error with which a reconciliation ends. Nil is success. It is the only place where a problem becomes status
// and requeue.
func ResultOf(err error) Result {
	if err == nil {
		return Result{
			State:       druidv1alpha1.LastOperationStateSucceeded,
			Reason:      druidv1alpha1.ReasonReconciled,
			Description: "The cluster is as the spec describes it",
			EventType:   corev1.EventTypeNormal, EventReason: "Reconciled",
		}
	}
	problem := plan.AsProblem(err)
	if problem == nil {
		problem = &plan.Problem{Kind: plan.ProblemFailed, Code: druidv1alpha1.ErrorCodeStep, Err: err}
	}
	r := Result{RequeueAfter: problem.RequeueAfter, Description: message(problem)}
	switch problem.Kind {
	case plan.ProblemWaiting:
		r.State = druidv1alpha1.LastOperationStateRequeue
		r.Reason = druidv1alpha1.ReasonWaiting
		r.EventType, r.EventReason = corev1.EventTypeWarning, problem.EventReason
	case plan.ProblemSkipped:
		r.KeepOperation = true
		r.Reason = problem.Reason
		if problem.Reason == druidv1alpha1.ReasonSuspended {
			r.EventType, r.EventReason = corev1.EventTypeWarning, "SpecReconciliationSkipped"
		}
	case plan.ProblemRefused:
		r.setError(problem, reconcile.TerminalError(err))
		r.Reason, r.EventReason = druidv1alpha1.ReasonInvalidSpec, "InvalidSpec"
	default:
		r.setError(problem, err)
		r.Reason, r.EventReason = druidv1alpha1.ReasonReconciling, "ReconcileFailed"
	}

	return r
}

func (r *Result) setError(problem *plan.Problem, err error) {
	r.State, r.EventType, r.Err = druidv1alpha1.LastOperationStateError, corev1.EventTypeWarning, err
	r.Errors = []druidv1alpha1.LastError{{Code: problem.Code, Description: r.Description}}
}

// newestResult translates the error with which the run of the newest generation ends, if no other generation was reconciled.
func newestResult(ctx context.Context, newest *Run, err error) Result {
	if IsInterrupted(err) {
		return Result{Err: err, Newest: newest}
	}

	return newResult(newest, err).finish(ctx, err)
}

// newResult translates the error with which the run of the newest generation ends. A generation that was rolled out before keeps its last
// operation, so that a short failure does not report it as unfinished.
func newResult(newest *Run, err error) Result {
	result := ResultOf(err)
	result.Newest = newest
	result.KeepOperation = result.KeepOperation || err != nil && target.IsCompleted(newest.Target.Stored)

	return result
}

// finish decides when the Etcd is reconciled again. problem is what blocks the newest generation.
func (r Result) finish(ctx context.Context, problem error) Result {
	run := r.Current()
	r.requeueForRepair(ctx, run.repairAfter)
	r.requeueWithin(ctx, run.requeueAfter)
	if foreign := plan.AsProblem(problem); foreign != nil && foreign.Foreign {
		r.requeueWithin(ctx, FallbackResync) // the operator watches no objects that do not belong to an Etcd
	}

	return r
}

// IsInterrupted is true for the error of a reconciliation that ends without a report. Either what it read is outdated, or the write
// guard blocks it.
func IsInterrupted(err error) bool {
	problem := plan.AsProblem(err)

	return apierrors.IsConflict(err) || problem != nil && problem.Kind == plan.ProblemPaused
}

// maxMessage bounds what the status says of an error, in bytes: an error may repeat a value of the spec.
const maxMessage = 4096

// message is the text of a problem for the status.
func message(problem *plan.Problem) string {
	text := problem.Error()
	if len(text) <= maxMessage || problem.Err == nil {
		return text
	}

	return strings.ToValidUTF8(text[:maxMessage], "") + " (shortened)"
}

// Message is the text of an error for the status, shortened to 4096 bytes.
func Message(err error) string {
	if problem := plan.AsProblem(err); problem != nil {
		return message(problem)
	}

	return message(&plan.Problem{Err: err})
}

// requeueWithin lowers RequeueAfter, for what no watch reports. 0 changes nothing. A failure is repeated with the backoff of the work queue.
// A refusal, which the work queue would not repeat, is repeated then.
func (r *Result) requeueWithin(ctx context.Context, after time.Duration) {
	if after <= 0 {
		return
	}
	if errors.Is(r.Err, reconcile.TerminalError(nil)) {
		logf.FromContext(ctx).Error(r.Err, "Newest generation rejected", "requeueAfter", after)
		r.Err = nil // the status reports it
	}
	if r.Err == nil && (r.RequeueAfter == 0 || after < r.RequeueAfter) {
		r.RequeueAfter = after
	}
}

// requeueForRepair is requeueWithin while members have not recovered: neither a refusal nor a failure of the newest generation delays it.
func (r *Result) requeueForRepair(ctx context.Context, after time.Duration) {
	if after == 0 {
		return
	}
	if r.Err != nil {
		logf.FromContext(ctx).Error(r.Err, "Newest generation blocked, repairing members", "requeueAfter", after)
		r.Err = nil
	}
	if r.RequeueAfter == 0 || after < r.RequeueAfter {
		r.RequeueAfter = after
	}
}

// addAccepted adds the outcome of the last accepted generation, which is reconciled while the newest one is blocked. The steps of a
// rolling update or of a rotation do not wait ever longer for a newest generation that fails.
func (r *Result) addAccepted(ctx context.Context, generation int64, err error) {
	if err == nil {
		return
	}
	accepted := ResultOf(err)
	if accepted.KeepOperation || accepted.Description == r.Description {
		return
	}
	r.Description += fmt.Sprintf("; meanwhile the operator reconciles generation %d, the last accepted one: %s", generation, accepted.Description)
	if !r.KeepOperation {
		r.Errors = append(r.Errors, accepted.Errors...)
	}
	after := accepted.RequeueAfter
	if accepted.Err != nil {
		after = FallbackResync
	} else if after > 0 && r.Err != nil {
		logf.FromContext(ctx).Error(r.Err, "Newest generation blocked, continuing with last accepted generation", "generation", generation, "requeueAfter", after)
		r.Err = nil
	}
	r.requeueWithin(ctx, after)
}

// waitOrFail turns a rendering that gardener-resource-manager failed to apply into a failure that names it.
func waitOrFail(p plan.Plan, o etcdcluster.Observation) error {
	if mr := o.ManagedResource; mr.Exists && mr.IsRefused() {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, fmt.Errorf("ManagedResource %s was not applied: %s", mr.Name, mr.Applied.Message))
	}

	return waitingFor(p, o)
}

// waitingFor returns what a plan waits for.
func waitingFor(p plan.Plan, o etcdcluster.Observation) error {
	problem := plan.Waiting(requeueAfter(p), "Waiting for %s (%s)", p.WaitsFor, p.Reason)
	switch p.Stage {
	case plan.StageObserve:
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("%s: %s", p.Reason, p.WaitsFor))
	case plan.StageWaitForSecrets: // WaitsFor has whole sentences
		problem.Message = fmt.Sprintf("Waiting: %s (%s)", p.WaitsFor, p.Reason)
		problem.EventReason = "SecretsMissing"
	case plan.StageWaitForCertificates:
		problem.Message = fmt.Sprintf("Waiting: %s (%s)", p.WaitsFor, p.Reason)
		problem.EventReason = "CertificatesInvalid"
	case plan.StageQuorumLost:
		problem.EventReason = "QuorumLost"
	case plan.StageWaitForClaims:
		problem.EventReason = "OrphanedClaims"
	case plan.StageHalted:
		problem.EventReason = "ClusterIDMismatch"
	default:
		if slices.ContainsFunc(o.StartProblems(), func(why string) bool { return strings.Contains(p.WaitsFor, why) }) {
			problem.EventReason = "PodNotStarted"
		}
	}

	return problem
}

// requeueAfter is when a plan that waits is computed again even if no watch reports a change.
func requeueAfter(p plan.Plan) time.Duration {
	period := observationPeriod(p)
	if p.RequeueAfter > 0 {
		return min(period, p.RequeueAfter)
	}

	return period
}

// observationPeriod is requeueAfter for a plan that only an observation changes.
func observationPeriod(p plan.Plan) time.Duration {
	switch p.Stage {
	case plan.StageRestore:
		if p.PollMembers {
			return MemberPeriod
		}

		return repairPeriod // a watch reports pods, and a node may be partitioned for days
	case plan.StageWaitForExisting, plan.StageSnapshot, plan.StageResizeVolume:
		return repairPeriod
	case plan.StageScaleUp, plan.StageScaleIn, plan.StageSurge, plan.StageMigrateVolumes, plan.StagePromote, plan.StageReplacePod, plan.StageReplaceLearner, plan.StageReplaceVolume, plan.StageFreeSpace, plan.StageWaitForMembers,
		plan.StageQuorumLost, plan.StageHalted:
		if p.PollMembers {
			return MemberPeriod
		}
		if p.ClusterSize > 1 {
			return repairPeriod
		}
	}

	return FallbackResync
}
