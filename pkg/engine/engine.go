// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// Observer reads everything that a decision about an Etcd depends on.
type Observer interface {
	// Observe reads the cluster of a canonical Etcd once. What cannot be read is a fact of the observation. The error ends the
	// reconciliation, see plan.ProblemPaused.
	Observe(ctx context.Context, run *Run) (etcdcluster.Observation, error)
}

// Executor writes. Each method may be repeated after an interruption at any of its writes. An error that is no plan.Problem is a failure.
type Executor interface {
	// Prepare adds the finalizer to an admitted Etcd. The Secrets that its accepted generation needs are then protected too.
	Prepare(ctx context.Context, run *Run) error
	// Maintain does the writes that a plan relies on and that carry no risk. It records the end of an attempt to take a full snapshot. It
	// writes the holders of the Leases of these voting members.
	Maintain(ctx context.Context, run *Run, withoutHolder []etcdcluster.Member) error
	// Certificates provides the certificates of the target, and returns the names of their Secrets. It adds Secrets to the observation of the run that it
	// does not contain.
	Certificates(ctx context.Context, run *Run) (secrets.Names, error)
	// Apply writes the combined CA bundles of the target, and publishes those for clients. It writes Leases and the ManagedResource if the rendering of the run, see Run.Rendered,
	// is not what they have.
	Apply(ctx context.Context, run *Run) (Applied, error)
	// RepairDrift repairs what another writer has changed of the rendering that is applied. It returns true if the reconciliation ends here,
	// with the error or with success.
	RepairDrift(ctx context.Context, run *Run, isApplied bool) (bool, error)
	// RecordEvidence records what a quorum confirms about the data, in the record and in the observation of the run. It is called before a
	// step that discards data. It returns a conflict if the record is not the observed one any more.
	RecordEvidence(ctx context.Context, run *Run, change evidence.Change) error
	// Do executes one step.
	Do(ctx context.Context, run *Run, step plan.Step, reason string) error
	// Complete does what has to wait until no step is left: the next stage of the CA rotation, and the deletion of unused Secrets.
	Complete(ctx context.Context, run *Run) error
}

// Applied is the result of Executor.Apply.
type Applied struct {
	// Changed is true if new manifests were written to the ManagedResource. Apply then also returns a waiting plan.Problem, which ends the
	// reconciliation. A write of the record alone does not end it.
	Changed bool
	// IsObserved is true if the resource manager has processed the ManagedResource as it is now.
	IsObserved bool
}

// Engine reconciles Etcds.
type Engine struct {
	Observer Observer
	Executor Executor
	// Render renders a target under a plan. It is pure. Tests replace it.
	Render func(t target.Target, p plan.Plan, o etcdcluster.Observation) (Rendered, error)
	// Config is the part of the operator's configuration that decides how specs are resolved.
	Config target.Config
	// Clock is the time of decisions.
	Clock clock.PassiveClock
	// Start is when the operator began to reconcile. Zero: decisions do not consider it.
	Start time.Time
}

// Reconcile reconciles one Etcd as far as possible now, and never blocks. It reconciles the newest generation. If that is blocked before
// its plan is known, it reconciles the generation that was accepted last. A running cluster then keeps what it has, and Reconcile renews
// its certificates, rotates its CAs and completes what was begun. If no generation was accepted, it only replaces lost volumes.
func (e Engine) Reconcile(ctx context.Context, stored *druidv1alpha1.Etcd) Result {
	result := e.reconcile(ctx, stored)
	if !IsInterrupted(result.Err) {
		result.Requests = result.requests(e.Clock.Now())
		result.EndsVerification = result.endsVerification()
	}

	return result
}

func (e Engine) reconcile(ctx context.Context, stored *druidv1alpha1.Etcd) Result {
	newest := &Run{Target: target.ForNewest(stored)}
	err := e.reconcileNewest(ctx, newest)
	if err == nil || newest.reached || helper.IsSuspended(stored) || IsInterrupted(err) {
		return newestResult(ctx, newest, err)
	}
	accepted := target.ForLastAccepted(newest.Target, newest.Observation, !ResultOf(err).KeepOperation)
	if accepted == nil {
		// Do not repair objects that may belong to others.
		if problem := plan.AsProblem(err); problem == nil || !problem.Foreign {
			err = e.repair(ctx, newest, err)
		}

		return newestResult(ctx, newest, err)
	}

	return e.reconcileAccepted(ctx, newest, err, &Run{Target: accepted, newest: newest})
}

// reconcileNewest reconciles the newest generation, if it is admitted.
func (e Engine) reconcileNewest(ctx context.Context, run *Run) error {
	err := e.observe(ctx, run)
	if problem := run.Target.Problem(); problem != nil {
		run.Observed = false

		return problem
	}
	if err != nil {
		return err
	}
	if failure := run.Observation.Failure(etcdcluster.SectionManagedResource); failure != "" && !helper.IsSuspended(run.Target.Stored) {
		// Without the record it is not known whether the generation is accepted.
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("reading %s: %s", etcdcluster.SectionManagedResource, failure))
	}
	if err := run.Target.Admit(run.Observation, e.Config); err != nil {
		return err
	}
	if err := e.Executor.Prepare(ctx, run); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
	}

	return e.rollOut(ctx, run)
}

// reconcileAccepted reconciles the generation that was accepted last while the newest one is blocked by the problem.
func (e Engine) reconcileAccepted(ctx context.Context, newest *Run, problem error, run *Run) Result {
	err := e.observe(ctx, run)
	if err == nil && !run.Observation.State.IsSame(newest.Observation.State) {
		err = apierrors.NewConflict(schema.GroupResource{Group: "resources.gardener.cloud", Resource: "managedresources"}, run.Observation.ManagedResource.Name, errors.New("the record has changed between two observations"))
	}
	if err == nil {
		run.Target.ContinueRollout(run.Observation, e.Config)
		err = e.rollOut(ctx, run)
	}
	if IsInterrupted(err) {
		return newestResult(ctx, newest, err)
	}
	if err != nil && run.Observed && !run.reached {
		_ = e.repair(ctx, run, problem)
	}
	result := newResult(newest, problem)
	result.Accepted = run
	result.addAccepted(ctx, run.Target.Stored.Generation, err)

	return result.finish(ctx, problem)
}

// observe reads the cluster of the target.
func (e Engine) observe(ctx context.Context, run *Run) (err error) {
	run.Observation, err = e.Observer.Observe(ctx, run)
	run.Observed = true
	run.Target.PinPort(run.Observation, e.Clock.Now())
	run.Target.SetUpdateStrategy(e.Config)
	run.Observation.StoreTimeout, run.Observation.CanInspect = e.Config.StoreTimeout, e.Config.EtcdHelper.Image != ""
	run.Observation.RecoveryDwellTime, run.Observation.RecoveryMaxClusters, run.Observation.OperatorStart = e.Config.RecoveryDwellTime, e.Config.RecoveryMaxClusters, e.Start
	run.Observation.PeerChangePending = run.Target.IsPeerChangePending(run.Observation, e.Clock.Now())
	if run.Target.Problem() == nil && planner.DependsOnStore(run.Target.Etcd, run.Observation) {
		run.Observation.TargetStore = run.Target.ResolvedStore(run.Observation, e.Config, e.Clock.Now())
	}

	return err
}

// rollOut plans, renders and applies a target, and executes the step of the plan if nothing had to be written.
func (e Engine) rollOut(ctx context.Context, run *Run) error {
	if err := cmp.Or(run.Target.CheckOwnership(run.Observation), run.Target.AwaitVersion(run.Observation)); err != nil {
		return err
	}
	if err := e.Executor.Maintain(ctx, run, planner.VotersWithoutLeaseHolder(run.Target.Etcd, run.Observation)); err != nil {
		return err
	}
	run.Target.SetVersion()
	p := e.plan(run)
	run.Planned, run.Plan = p, p
	logf.FromContext(ctx).V(1).Info("Decision computed", "stage", p.Stage, "reason", p.Reason, "waitsFor", p.WaitsFor)
	switch {
	case p.Refusal != nil:
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, p.Refusal)
	case !p.Render && p.Step != nil:
		run.reached = true

		return e.executeStep(ctx, run, p)
	case !p.Render:
		run.reached = !blocksGeneration(p)

		return waitingFor(p, run.Observation)
	}
	if err := e.resolve(ctx, run); err != nil {
		return err
	}
	if change := run.Target.CAChange.Description; change != "" {
		p.Reason += "; " + change
	}
	if p.Replicas == 0 && len(run.Observation.Pods) > 0 {
		run.confirmed = evidence.Confirm(run.Observation.State.Evidence, run.Observation, e.Clock.Now())
	}
	applied, err := e.apply(ctx, run, p)
	if applied.Changed {
		run.reached = true
	}
	if err != nil || applied.Changed {
		return err
	}
	run.reached = true
	if accepted, _ := evidence.Accept(run.Observation.State.Evidence, run.stored().Annotations[druidv1alpha1.AcceptRevisionAnnotation]); accepted != nil && !planner.UsesAcceptedRevision(run.Target.Etcd, run.Observation) {
		run.RequeueWithin(MemberPeriod) // no watch reports that the record was written
	}
	run.requeueForRecord(p)

	return e.execute(ctx, run, p, applied)
}

// plan computes the plan of a target, as far as preflights pass. What was accepted is not validated again.
func (e Engine) plan(run *Run) plan.Plan {
	decide := planner.For
	if run.Target.Source == target.LastAccepted {
		decide = planner.ForAccepted
	}

	p := decide(run.Target.Etcd, run.Observation, e.Clock.Now())

	return passPreflights(p, run.Observation, etcdcluster.CertificatesPreflight(run.Target.Etcd, run.Observation, replacedPod(p), e.Clock.Now()))
}

// blocksGeneration is true for a plan with which the generation that was accepted last is reconciled.
func blocksGeneration(p plan.Plan) bool {
	return p.Stage == plan.StageWaitForSecrets || p.Stage == plan.StageWaitForCertificates || p.Stage == plan.StageWaitForSurge
}

// resolve resolves what only a plan needs that renders: the NetworkPolicies, the store, the TLS modes, and the Secrets with certificates.
func (e Engine) resolve(ctx context.Context, run *Run) error {
	t, o := run.Target, run.Observation
	t.ResolveNetworkPolicies(e.Config)
	err := t.ResolveStore(o, e.Config, e.Clock.Now())
	if user := t.StoreUser; user != nil {
		logf.FromContext(ctx).Info("Store in use", "message", t.StoreResolution.Message, "userNamespace", user.Namespace, "userName", user.Name, "isCopy", user.IsCopy)
		run.RequeueWithin(target.StoreUserResync)
	}
	if err != nil {
		return err
	}
	if err := t.ResolveTLS(o, e.Clock.Now()); err != nil {
		return err
	}
	run.resolvedTLS = true
	names, err := e.Executor.Certificates(ctx, run)
	if err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncSecrets, err)
	}
	t.SetSecrets(names)
	if err := t.ResolveCAChange(run.Observation); err != nil {
		return err
	}
	run.RequeueWithin(t.ResolveCertificates(o, e.Clock.Now()))

	return nil
}

// apply renders a plan and applies the rendering.
func (e Engine) apply(ctx context.Context, run *Run, p plan.Plan) (Applied, error) {
	rendered, err := e.Render(*run.Target, p, run.Observation)
	if err != nil {
		return Applied{}, err
	}
	rendered.Plan = p
	run.Rendered = rendered
	run.advanceRollout(e.Config.Rollout, e.Clock.Now())

	return e.Executor.Apply(ctx, run)
}

// execute does what is due of a plan when nothing had to be written.
func (e Engine) execute(ctx context.Context, run *Run, p plan.Plan, applied Applied) error {
	run.Plan = planner.Gate(p, run.Rendered.Rendering, run.Observation)
	err := e.executePlan(ctx, run, applied)
	if err := run.addWithheld(e.Clock.Now(), run.addBlocked(err)); err != nil {
		return err
	}
	if err := run.awaitHealth(); err != nil {
		return err
	}
	run.Completed = run.Applied

	return nil
}

// executePlan executes a gated plan.
func (e Engine) executePlan(ctx context.Context, run *Run, applied Applied) error {
	p := run.Plan
	if p.Outcome() == plan.OutcomeScaleUp && !run.keepsPods(p) {
		return e.addMember(ctx, run)
	}
	isShown := p.Render && applied.IsObserved && isApplied(run.Rendered.Rendering, run.Observation)
	if isShown {
		run.Applied = hasAllMembers(run.Target.Etcd, p) && p.Blocked == nil && p.NextEtcdVersion == "" && !run.Target.CAChange.IsPartial
	}
	if ends, err := e.Executor.RepairDrift(ctx, run, isShown); err != nil || ends {
		return err
	}
	if err := e.executeStep(ctx, run, p); err != nil {
		return err
	}
	if run.Target.CAChange.IsPartial {
		return plan.Waiting(MemberPeriod, "Waiting for all pods to have the Secrets of this stage (%s)", run.Target.CAChange.Description)
	}

	return e.Executor.Complete(ctx, run)
}

// addMember applies the rendering with which the next member joins. The same write records the voting members, so that the record never lacks
// more than one.
func (e Engine) addMember(ctx context.Context, run *Run) error {
	gated := run.Plan
	run.confirmed = evidence.Confirm(run.Observation.State.Evidence, run.Observation, e.Clock.Now())
	if applied, err := e.apply(ctx, run, gated.ScaledUp()); err != nil && !applied.Changed {
		return err
	}

	return plan.Waiting(MemberPeriod, "Waiting for the next member to join: %s", gated.Reason)
}

// executeStep executes the step of a plan, or returns what the plan waits for.
func (e Engine) executeStep(ctx context.Context, run *Run, p plan.Plan) error {
	if run.keepsPods(p) {
		return plan.Skipped(druidv1alpha1.ReasonReconciled, "The generation is rolled out; %d pods are older than the last change of the StatefulSet and are replaced with the next operation",
			len(etcdcluster.OutdatedPods(run.Observation)))
	}
	switch p.Outcome() {
	case plan.OutcomeDone, plan.OutcomeBlocked:
		return nil
	case plan.OutcomeRefused:
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, p.Refusal)
	case plan.OutcomeWaiting:
		return waitOrFail(p, run.Observation)
	}
	if err := e.do(ctx, run, p.Step, p.Reason); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
	}
	traits, after := plan.TraitsOf(p.Step), FallbackResync
	if p.ClusterSize > 1 || p.PollMembers || traits.Poll {
		after = MemberPeriod
	}

	return plan.Waiting(after, "Waiting for the outcome of step %s of %s: %s", traits.Kind, plan.MetaOf(p.Step).Object, p.Reason)
}

// do executes a step. Before a step that discards data it records what a quorum confirms now, and which members have lost their data. If that
// shows that the cluster has lost acknowledged writes, the step is not executed: the next plan considers it.
func (e Engine) do(ctx context.Context, run *Run, step plan.Step, reason string) error {
	if !plan.TraitsOf(step).DiscardsData {
		return e.Executor.Do(ctx, run, step, reason)
	}
	before := run.Observation.State.Evidence
	if change := evidence.ChangeBefore(run.Target.Etcd, run.Observation, e.Clock.Now()); !change.IsEmpty() {
		if err := e.Executor.RecordEvidence(ctx, run, change); err != nil {
			return err
		}
		confirmed := change.Evidence
		if confirmed != nil && confirmed.RolledBack != nil && (before == nil || before.RolledBack == nil) {
			return plan.Waiting(MemberPeriod, "Waiting with step %s of %s: a quorum returned revision %d, and had returned revision %d before",
				plan.TraitsOf(step).Kind, plan.MetaOf(step).Object, confirmed.RolledBack.Revision, confirmed.HighestRevision)
		}
	}

	return e.Executor.Do(ctx, run, step, reason)
}

// repair replaces a lost volume, or the pod of a member that cannot join, although the generation is blocked by the problem. It returns the
// problem. An Etcd that a user has suspended is never repaired.
func (e Engine) repair(ctx context.Context, run *Run, problem error) error {
	if !run.Observed {
		return problem
	}
	p := planner.ForRepair(run.Target.Etcd, run.Observation, e.Clock.Now())
	if p.Step != nil {
		if err := e.do(ctx, run, p.Step, p.Reason); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
		}
	}
	if period := requeueAfter(p); p.Outcome() != plan.OutcomeDone && (run.repairAfter == 0 || period < run.repairAfter) {
		run.repairAfter = period
	}

	return problem
}

// isApplied is true if the StatefulSet shows a rendering. Its pods may still be older. The observation is older than the ManagedResource
// that was compared with the rendering. Both must agree, or the application of an earlier generation would acknowledge this one.
func isApplied(rendering etcdcluster.Rendering, o etcdcluster.Observation) bool {
	return o.ManagedResource.IsApplied() && o.StatefulSet.Exists && !o.StatefulSet.Deleting &&
		o.StatefulSet.Rendering.Checksum == rendering.Checksum && len(planner.Outstanding(o, rendering)) == 0
}

// hasAllMembers is false while a cluster has fewer members than the spec requests, and while members of the joined cluster are removed.
func hasAllMembers(etcd *druidv1alpha1.Etcd, p plan.Plan) bool {
	return !helper.ManagesPods(etcd) || p.Replicas == etcd.Spec.Replicas && (p.Replicas == 0 || len(etcdcluster.LeavingExisting(etcd)) == 0)
}

const (
	// MemberPeriod is the interval at which the members of a changing cluster are queried: no watch reports votes and leaders.
	MemberPeriod = time.Second
	// repairPeriod is the interval if no pod was created in the last minutes.
	repairPeriod = 10 * time.Second
)
