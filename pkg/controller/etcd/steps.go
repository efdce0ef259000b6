// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// step does what the plan says is due, at most one thing, or says what the plan waits for.
func (r *Reconciler) step(ctx context.Context, p *pass, mr *resourcesv1alpha1.ManagedResource, rendered rendering, decision plan.Plan) error {
	// What the spec asked for is done: a pod that was made before somebody else changed the StatefulSet stays until the next
	// operation. Seeds hold hundreds of clusters. New certificates and another Secret of the store do not wait for one,
	// and a restore goes on to its end.
	if p.isOver() && decision.Stage == plan.StageReplacePod && decision.Restore == state.RestoreNone && !p.issued.isAheadOf(p.observation) && !p.observation.MountsOtherStoreSecret() {
		return plan.Skipped(druidv1alpha1.ReasonReconciled, "The generation is carried out; %d pods were made before the StatefulSet was last changed and are replaced with the next operation", len(etcdcluster.OutdatedPods(p.observation)))
	}
	switch decision.Outcome() {
	case plan.OutcomeDone, plan.OutcomeHindered:
		return nil
	case plan.OutcomeRefused:
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, decision.Refusal)
	case plan.OutcomeWaiting:
		return waitOrFail(decision, p.observation)
	}

	traits, object := plan.TraitsOf(decision.Step), plan.MetaOf(decision.Step).Object
	if traits.InterruptsMember {
		if !r.Locks.TryLock(p.canonical.UID, ControllerName) {
			return waitForMembers("Waiting for the member to serve that is being defragmented (%s)", decision.Reason)
		}
		defer r.Locks.Unlock(p.canonical.UID, lockCooldown)
	}
	logf.FromContext(ctx).Info("Doing a step", "step", traits.Kind, "object", object, "reason", decision.Reason)
	if err := r.do(ctx, p, mr, rendered, decision); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
	}
	if decision.ClusterSize > 1 || traits.Poll {
		return waitForMembers("Waiting for the outcome of step %s of %s: %s", traits.Kind, object, decision.Reason)
	}
	return plan.Waiting(engine.FallbackResync, "Waiting for the outcome of step %s of %s: %s", traits.Kind, object, decision.Reason)
}

// isOver says whether the generation that is carried out was carried out to its end before.
func (p *pass) isOver() bool {
	return isOver(p.etcd) || p.keeps && p.accepted.Completed
}

// isOver says whether the last operation succeeded with the current generation, and none is asked for. Whatever happens
// afterwards leaves the last operation alone (report), so that no hiccup makes it look unfinished and rolls pods.
func isOver(etcd *druidv1alpha1.Etcd) bool {
	last, observed := etcd.Status.LastOperation, etcd.Status.ObservedGeneration
	return last != nil && last.State == druidv1alpha1.LastOperationStateSucceeded &&
		observed != nil && *observed == etcd.Generation && !helper.IsReconcileRequested(etcd)
}

// lockCooldown is how long another controller waits after a pod was replaced, until the caches show the change.
const lockCooldown = 5 * time.Second

// do does the step of a plan, and counts it.
func (r *Reconciler) do(ctx context.Context, p *pass, mr *resourcesv1alpha1.ManagedResource, rendered rendering, decision plan.Plan) error {
	err := r.act(ctx, p, mr, rendered, decision)
	measureStep(p.etcd, decision.Step, err)
	if err == nil {
		writeguard.Add(ctx, fmt.Sprintf("step %s of %s", plan.TraitsOf(decision.Step).Kind, plan.MetaOf(decision.Step).Object)) // etcd was written to, if not the API server
	}
	return err
}

func (r *Reconciler) act(ctx context.Context, p *pass, mr *resourcesv1alpha1.ManagedResource, rendered rendering, decision plan.Plan) error {
	etcd := p.canonical
	switch step := decision.Step.(type) {
	case plan.DeletePod:
		r.event(etcd, corev1.EventTypeNormal, "ReplacingPod", "Deleting pod %s: %s", step.Object, decision.Reason)
		return r.deleteObject(ctx, &corev1.Pod{ObjectMeta: objectMeta(etcd, step)}, preconditionsOf(step))
	case plan.EvictPod:
		return r.evict(ctx, etcd, step, decision.Reason)
	case plan.MoveLeader:
		return r.moveLeader(ctx, p, step, decision.Reason)
	case plan.PromoteMember:
		return r.promote(ctx, p, step, decision.Reason)
	case plan.UpdatePeerURLs:
		return r.updatePeerURLs(ctx, p, step, decision.Reason)
	case plan.ReplaceClaim:
		r.event(etcd, corev1.EventTypeWarning, "ReplacingVolume", "Deleting PersistentVolumeClaim %s: %s", step.Object, decision.Reason)
		return r.deleteObject(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta(etcd, step)}, preconditionsOf(step))
	case plan.ResizeClaim:
		return r.resizeClaim(ctx, p, step, decision.Reason)
	case plan.DeleteClaim:
		return r.deleteClaim(ctx, etcd, step, decision.Reason)
	case plan.VerifyRestore:
		return r.verifyRestore(ctx, p, decision.Reason)
	case plan.DeleteRestoreJob:
		return r.deleteObject(ctx, rehearsalJob(etcd), preconditionsOf(step), client.PropagationPolicy(metav1.DeletePropagationBackground))
	case plan.ResetLease:
		return r.deleteObject(ctx, &coordinationv1.Lease{ObjectMeta: objectMeta(etcd, step)}, preconditionsOf(step))
	case plan.RecreateStatefulSet:
		return r.recreateStatefulSet(ctx, etcd, mr, rendered, decision)
	case plan.TakeSnapshot:
		r.takeSnapshot(etcd, p.observation)
		return nil
	case plan.RequestReconcile:
		r.event(etcd, corev1.EventTypeNormal, "RepairingDrift", "Requesting ManagedResource %s to be applied again: %s", step.Object, decision.Reason)
		return r.requestApply(ctx, mr, repairsOf(mr, rendered).With(r.Clock.Now(), statefulSetObject(etcd)))
	default:
		return fmt.Errorf("unknown step %T", step)
	}
}

// recreateStatefulSet deletes the StatefulSet without its pods, after a dry run has shown that the API server would create the new one.
func (r *Reconciler) recreateStatefulSet(ctx context.Context, etcd *druidv1alpha1.Etcd, mr *resourcesv1alpha1.ManagedResource, rendered rendering, decision plan.Plan) error {
	if err := r.tryRendering(ctx, rendered.objects); err != nil {
		return err
	}
	step := decision.Step
	r.event(etcd, corev1.EventTypeNormal, "RecreatingStatefulSet", "Deleting StatefulSet %s without its pods: %s", plan.MetaOf(step).Object, decision.Reason)
	if err := r.deleteObject(ctx, &appsv1.StatefulSet{ObjectMeta: objectMeta(etcd, step)}, preconditionsOf(step), client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return err
	}
	return r.requestApply(ctx, mr, repairsOf(mr, rendered).Without(statefulSetObject(etcd)))
}

// objectMeta identifies the object of a step.
func objectMeta(etcd *druidv1alpha1.Etcd, step plan.Step) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: etcd.Namespace, Name: plan.MetaOf(step).Object}
}

// preconditionsOf are what has to be true of the object still for the step to be the right one: that it is the one that
// was seen and, where its state decided, that it did not change.
func preconditionsOf(step plan.Step) client.Preconditions {
	meta := plan.MetaOf(step)
	preconditions := client.Preconditions{UID: new(meta.UID)}
	if meta.ResourceVersion != "" {
		preconditions.ResourceVersion = new(meta.ResourceVersion)
	}
	return preconditions
}

// waitOrFail turns a rendering that gardener-resource-manager failed to apply into a failure that names it.
func waitOrFail(decision plan.Plan, o etcdcluster.Observation) error {
	if mr := o.ManagedResource; mr.Exists && mr.IsRefused() {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, fmt.Errorf("ManagedResource %s was not applied: %s", mr.Name, mr.Applied.Message))
	}
	return waitingFor(decision)
}

// waitingFor says what a plan waits for.
func waitingFor(decision plan.Plan) error {
	err := plan.Waiting(periodFor(decision), "Waiting for %s (%s)", decision.WaitsFor, decision.Reason)
	switch decision.Stage {
	case plan.StageObserve:
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("%s: %s", decision.Reason, decision.WaitsFor))
	case plan.StageWaitForSecrets: // it waits for what whole sentences say
		err.Message = fmt.Sprintf("Waiting: %s (%s)", decision.WaitsFor, decision.Reason)
		err.EventReason = "SecretsMissing"
	case plan.StageQuorumLost:
		err.EventReason = "QuorumLost"
	case plan.StageHold:
		err.EventReason = "SplitBrain"
	}
	return err
}
