// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/drift"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// resizePause is when a larger volume that was rejected is requested again: a quota may have room later.
const resizePause = time.Minute

// Run is one attempt to reconcile one generation.
type Run struct {
	// Target is the desired state.
	Target *target.Target
	// Observation is meaningful if Observed.
	Observation etcdcluster.Observation
	// Observed is false before the cluster is observed, and for a spec that has no canonical form.
	Observed bool
	// Planned is the plan before Gate, Plan the one after it. Zero: the run ended before.
	Planned, Plan plan.Plan
	// Rendered is the latest rendering. Zero: the run ended before.
	Rendered Rendered
	// Applied is true if the StatefulSet shows the final rendering of the generation.
	Applied bool
	// Completed is true if the generation is also rolled out, and the status reports that clients can use the cluster.
	Completed bool

	// newest is the blocked run of the newest generation. Nil: this is that run.
	newest *Run
	// reached is true once the generation cannot be blocked any more. The last accepted generation is not reconciled then.
	reached bool
	// resolvedTLS is true once the TLS modes of the target are known.
	resolvedTLS bool
	// withheld are the objects whose repair is postponed, because their last repair was less than drift.Pause ago.
	withheld []Difference
	// confirmed is the evidence to record with a rendering that stops members or adds one. Nil: the record stays.
	confirmed *state.Evidence
	// rollout is the record of the update to newer defaults. Nil: there is none.
	rollout *state.Rollout
	// requeueAfter is when something has to be done that no watch reports. 0: nothing.
	requeueAfter time.Duration
	// repairAfter is when members that have not recovered are observed again, although the generation is blocked. 0: all have.
	repairAfter time.Duration
}

// Newest returns the blocked run of the newest generation. Nil: this is that run.
func (r *Run) Newest() *Run { return r.newest }

// HasResolvedTLS is true once the TLS modes of the target are known.
func (r *Run) HasResolvedTLS() bool { return r.resolvedTLS }

// Reach records that the generation cannot be blocked any more. The last accepted generation is not reconciled then.
func (r *Run) Reach() { r.reached = true }

// RequeueWithin makes sure that the Etcd is reconciled again in time for what no watch reports, such as the renewal of a certificate. 0 changes nothing.
func (r *Run) RequeueWithin(after time.Duration) {
	if after > 0 && (r.requeueAfter == 0 || after < r.requeueAfter) {
		r.requeueAfter = after
	}
}

// requeueForRecord makes sure that the Etcd is reconciled again while the record contains what no watch reports.
func (r *Run) requeueForRecord(p plan.Plan) {
	if len(r.Observation.State.Retained) > 0 {
		r.RequeueWithin(FallbackResync) // changes of volumes and conditions
	}
	if p.Space.IsActive() {
		r.RequeueWithin(repairPeriod) // sizes and alarms
	}
	if consistency.IsConfirmed(r.Observation.State.Inconsistency) {
		r.RequeueWithin(repairPeriod) // further comparisons
	}
}

// IsAddingMember is true while the rendering is applied with which the next member joins.
func (r *Run) IsAddingMember() bool { return r.Plan.ScaleUp != nil && r.Rendered.Plan.ScaleUp == nil }

// stored returns the Etcd with the annotations of users: those of the newest generation.
func (r *Run) stored() *druidv1alpha1.Etcd {
	if r.newest != nil {
		return r.newest.Target.Stored
	}

	return r.Target.Stored
}

// NextState returns the record with which the rendering is applied.
func (r *Run) NextState() state.State {
	p, t := r.Rendered.Plan, r.Target
	next := r.Observation.State
	accepted := *t.Accepted
	accepted.Certificates = t.Certificates
	next.Accepted, next.Replicas, next.EtcdVersion = &accepted, &p.Replicas, p.EtcdVersion
	next.TLS, next.FinalSnapshot, next.Restore = t.TLS, p.FinalSnapshot, p.Restore
	next.ScaleIn, next.Surge, next.PodSize = p.ScaleIn, p.Surge, p.PodSize
	next.DefaultUpdateStrategy = t.DefaultUpdateStrategy
	next.Existing = planner.ExistingToPersist(p, t.Etcd, r.Observation)
	next.Verified, next.Recovery = nextVerified(p, r.Observation.State), p.Recovery
	if p.Retained != nil {
		next.Retained = p.Retained
	}
	if p.Space != nil {
		next.Space = p.Space
	}
	next.Rollout = r.rollout
	if t.TLS.AnyManaged() {
		next.Rotation = &t.Rotation
	}
	if p.Replicas > 0 { // a hibernated cluster keeps the record, and so does a restore, which may be withdrawn, until nothing is left
		next.Migration = p.Migration
		next.Size, next.Started = planner.SizeToPersist(p, r.Observation), p.Replicas
	}
	if r.confirmed != nil {
		next.Evidence = r.confirmed
	}
	switch accepted, _ := evidence.Accept(next.Evidence, r.stored().Annotations[druidv1alpha1.AcceptRevisionAnnotation]); {
	case p.Restore == state.RestoreStart && r.Observation.State.Restore != state.RestoreStart:
		next.Evidence, next.Incident = evidence.Restored(next.Verified), nil // nothing is left of the data that they were about
	case accepted != nil && !planner.UsesAcceptedRevision(r.stored(), r.Observation):
		next.Evidence = accepted
	}
	next.Store = nil // the location stays recorded when the spec has no store any more
	if t.Store != nil {
		next.Store = t.StoreRecord
	}

	return next
}

// nextVerified returns the facts to record about a restore.
func nextVerified(p plan.Plan, recorded state.State) *state.VerifiedRestore {
	begins := recorded.Restore == state.RestoreNone || p.Restore == state.RestoreDiscard && recorded.Restore != state.RestoreDiscard
	switch {
	case p.Restore == state.RestoreNone:
		return nil
	case begins:
		return p.Verified
	default:
		return recorded.Verified
	}
}

// keepsPods is true if the generation was rolled out before and only pods are outdated, because another writer has changed the
// StatefulSet. These pods stay until the next operation. Seeds hold hundreds of clusters. New certificates and another Secret of the store
// do not wait for an operation. A restore and an update to newer defaults continue to their end. A pod that cannot start is replaced.
func (r *Run) keepsPods(p plan.Plan) bool {
	return r.Target.IsCompleted() && p.Stage == plan.StageReplacePod && !p.Restarts && p.Restore == state.RestoreNone && !r.rollout.IsUnfinished() &&
		!r.Target.HasNewerSecrets(r.Observation) && !r.Observation.MountsOtherStoreSecret()
}

// addBlocked adds what of the spec cannot be reconciled for now: to what is waited for, or as a refusal if nothing else is left.
func (r *Run) addBlocked(err error) error {
	blocked := r.Plan.Blocked
	if blocked == nil {
		return err
	}
	r.RequeueWithin(resizePause)
	problem := plan.AsProblem(err)
	switch {
	case err == nil:
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, blocked)
	case problem != nil && problem.Kind == plan.ProblemWaiting:
		both := *problem
		both.Message += "; " + blocked.Error()

		return &both
	default:
		return err
	}
}

// awaitHealth lets an operation end only after the care controller has reported healthy members, and the StatefulSet ready pods. Otherwise these reports would
// follow the end, after which clients expect no further write. A condition that does not exist is not awaited. Nil: nothing is awaited, or the operation
// has ended before.
func (r *Run) awaitHealth() error {
	etcd := r.Target.Etcd.DeepCopy()
	r.stored().Status.DeepCopyInto(&etcd.Status)
	if !helper.ManagesPods(etcd) ||
		r.Target.IsCompleted() && (r.newest != nil || conditions.IsTrue(etcd.Status.Conditions, druidv1alpha1.ConditionTypeReconciled)) {
		return nil
	}
	for _, conditionType := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTypeAllMembersReady} {
		if condition := conditions.Find(etcd.Status.Conditions, conditionType); condition != nil && condition.Status != druidv1alpha1.ConditionTrue && !helper.IsHibernated(etcd) {
			return plan.Waiting(FallbackResync, "Waiting for condition %s: %s", conditionType, condition.Message)
		}
	}
	etcd.Status.ObservedGeneration = &etcd.Generation
	if !conditions.CountsFor(etcd, r.Observation, false).Ready {
		return plan.Waiting(FallbackResync, "Waiting for StatefulSet %s to report %d ready pods", r.Observation.StatefulSet.Name, etcd.Spec.Replicas)
	}

	return nil
}

// Difference is an object that is not as it is rendered.
type Difference struct {
	// Object is its kind and name, for example Service/main-client.
	Object string
	// Message says what differs.
	Message string
	// RepairedAt is the time of its last repair. Zero: it may be repaired now.
	RepairedAt time.Time
}

// Withhold records objects that are not repaired now, each once.
func (r *Run) Withhold(found ...Difference) {
	for _, one := range found {
		if !r.IsWithheld(one.Object) {
			r.withheld = append(r.withheld, one)
		}
	}
}

// IsWithheld is true for an object that was repaired within drift.Pause and is not repaired now.
func (r *Run) IsWithheld(object string) bool {
	for _, one := range r.withheld {
		if one.Object == object {
			return true
		}
	}

	return false
}

// Withheld returns a problem that says which objects differ again and are not repaired yet. Nil: none.
func (r *Run) Withheld(now time.Time) error { return r.addWithheld(now, nil) }

// addWithheld adds to the outcome of a run the objects that differ again and are not repaired yet.
func (r *Run) addWithheld(now time.Time, err error) error {
	if len(r.withheld) == 0 {
		return err
	}
	var messages []string
	after := drift.Pause
	for _, one := range r.withheld {
		next := one.RepairedAt.Add(drift.Pause)
		messages = append(messages, fmt.Sprintf("%s although the operator repaired it at %s; it repairs it again at %s",
			one.Message, one.RepairedAt.UTC().Format(time.RFC3339), next.UTC().Format(time.RFC3339)))
		after = min(after, max(time.Second, next.Sub(now)))
	}
	text := strings.Join(messages, "; ") + ". Another controller or a user changes the same objects: stop it"
	switch problem := plan.AsProblem(err); {
	case err == nil, problem != nil && problem.Kind == plan.ProblemSkipped:
		waiting := plan.Waiting(after, "Waiting to repair again: %s", text)
		waiting.EventReason = "DriftNotRepaired"

		return waiting
	case problem != nil && problem.Kind == plan.ProblemWaiting:
		both := *problem
		both.Message += "; " + text
		both.RequeueAfter = min(both.RequeueAfter, after)

		return &both
	default:
		r.RequeueWithin(after)

		return err
	}
}
