// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// patchStatus writes the status of next if it differs from that of etcd, both of the same resource version. The condition
// list is atomic and care writes it too: the optimistic lock keeps each from undoing the other. On success etcd and next
// are what the API server has.
func (r *Reconciler) patchStatus(ctx context.Context, etcd, next *druidv1alpha1.Etcd) error {
	next.Status.LastErrors = r.withLoop(etcd, next)
	if equality.Semantic.DeepEqual(etcd.Status, next.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(etcd.DeepCopy(), client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patching status: %w", err)
	}
	next.DeepCopyInto(etcd)
	return nil
}

// writeStatus patches the status. It returns the Etcd before and after the patch, and whether the condition Reconciled changed. If another controller has
// changed the status in the meantime, the same result is written into the new version. Otherwise, the whole reconciliation would be repeated, with its reads
// and dry runs. With thousands of Etcds in the queue, the Etcd would also wait for all of them again.
func (r *Reconciler) writeStatus(ctx context.Context, o engine.Result, delay *rollout.Delay) (before, next *druidv1alpha1.Etcd, changed bool, err error) {
	stored := o.Newest.Target.Stored
	err = r.onLatest(ctx, stored, func() error {
		before, next = stored.DeepCopy(), stored.DeepCopy()
		changed = r.setStatus(ctx, next, o, delay)
		return r.patchStatus(ctx, stored, next)
	})
	return before, next, changed, err
}

// removeAnnotations removes the operation annotation of a generation that is applied. With the same patch, it removes the annotations of requests that are
// recorded or have no effect. The status reports the result afterwards. A client that waits for that can write the Etcd without a conflict. If the operator
// stops in between, it continues with the recorded generation. removeAnnotations returns a conflict if there is another request meanwhile.
func (r *Reconciler) removeAnnotations(ctx context.Context, o engine.Result) error {
	stored, endsOperation := o.Newest.Target.Stored, endsOperation(o)
	if !endsOperation && len(o.Requests) == 0 {
		return nil
	}
	remove := func(etcd *druidv1alpha1.Etcd) {
		if endsOperation {
			helper.RemoveOperationAnnotations(etcd)
		}
		for _, request := range o.Requests {
			delete(etcd.Annotations, request.Annotation)
		}
	}
	requested := stored.DeepCopy()
	isOther := func(latest *druidv1alpha1.Etcd) bool {
		hasOther := func(request engine.Request) bool { return latest.Annotations[request.Annotation] != request.Value }

		return latest.UID != requested.UID || endsOperation && isOtherRequest(requested, latest) || slices.ContainsFunc(o.Requests, hasOther)
	}
	if err := r.Versions.Write(ctx, r.Reader, stored, isOther, func() error {
		next := stored.DeepCopy()
		remove(next)
		if err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(stored.DeepCopy(), client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("removing annotations: %w", err)
		}
		next.DeepCopyInto(stored)

		return nil
	}); err != nil {
		return err
	}
	if endsOperation {
		r.event(stored, corev1.EventTypeNormal, "Applied", "Generation %d is applied", requested.Generation)
	}
	r.emitRequests(stored, o)
	if remove(requested); isOtherRequest(requested, stored) { // a request without effect is also removed from a later generation
		return apierrors.NewConflict(druidv1alpha1.Resource("etcds"), stored.Name, errors.New("the Etcd has changed"))
	}

	return nil
}

// endsOperation is true for the result with which the operation annotation is removed: its generation is applied. An operation that has not ended must not
// be taken for the one before, which has succeeded with the same generation. The status then reports it first, and the next reconciliation removes the
// annotation.
func endsOperation(o engine.Result) bool {
	without := o.Newest.Target.Stored.DeepCopy()

	return o.Newest.Applied && helper.RemoveOperationAnnotations(without) && (o.Newest.Completed || !target.IsCompleted(without))
}

// onLatest writes a version of an Etcd, or the latest version if the request is the same.
func (r *Reconciler) onLatest(ctx context.Context, stored *druidv1alpha1.Etcd, write func() error) error {
	isOther := func(latest *druidv1alpha1.Etcd) bool { return isOtherRequest(stored, latest) }
	return r.Versions.Write(ctx, r.Reader, stored, isOther, write)
}

// isOtherRequest is true if two versions of an Etcd differ in what a user requests. A result of the one does not apply to the other. A deletion increases the
// generation.
func isOtherRequest(a, b *druidv1alpha1.Etcd) bool {
	return a.UID != b.UID || a.Generation != b.Generation || !maps.Equal(cachedAnnotations(a), cachedAnnotations(b))
}

// cachedAnnotations returns the annotations of an object without the manifest that kubectl applied last. The caches lack it, and the API server returns it.
func cachedAnnotations(obj client.Object) map[string]string {
	annotations := obj.GetAnnotations()
	if _, has := annotations[corev1.LastAppliedConfigAnnotation]; has {
		annotations = maps.Clone(annotations)
		delete(annotations, corev1.LastAppliedConfigAnnotation)
	}

	return annotations
}

// setStatus computes the status from the one observation and the outcome, and returns whether the condition Reconciled
// changed. Conditions that care writes stay as they are.
func (r *Reconciler) setStatus(ctx context.Context, next *druidv1alpha1.Etcd, o engine.Result, delay *rollout.Delay) bool {
	run := o.Newest
	o.SetObservedGeneration(&next.Status)
	if !o.KeepOperation {
		r.setOperation(ctx, next, operationFor(run.Target.Stored), o)
	}

	next.Status.BootstrapWithExistingCluster = o.JoinedCluster(next.Status, r.Clock.Now())

	updated := conditions.Find(next.Status.Conditions, druidv1alpha1.ConditionTypeAllMembersUpdated)
	store := conditions.Find(next.Status.Conditions, druidv1alpha1.ConditionTypeStoreResolved)
	scale := conditions.Find(next.Status.Conditions, druidv1alpha1.ConditionTypeScaleOperationComplete)
	recoverable := conditions.Find(next.Status.Conditions, druidv1alpha1.ConditionTypeQuorumRecoverable)
	if run.Observed {
		updated = r.setObserved(run, next, keepsPods(next, o))
		scale = conditions.ScaleOperationComplete(r.inputOf(o.Current(), next))
		recoverable = r.quorumRecoverable(o)
	}
	final := conditions.Find(next.Status.Conditions, druidv1alpha1.ConditionTypeFinalSnapshotTaken)
	for _, run := range []*engine.Run{o.Newest, o.Accepted} {
		if condition, is := finalSnapshotOf(run); is {
			final = condition
		}
	}
	for _, run := range []*engine.Run{o.Accepted, o.Newest} {
		if run != nil && run.Target.StoreResolution != nil {
			store = conditions.StoreResolved(run.Target.Etcd, *run.Target.StoreResolution)
		}
	}
	return r.setConditions(&next.Status, o, updated, store, final, scale, recoverable, defaultsUpdatedFor(delay))
}

// setConditions writes the conditions of this controller and returns whether Reconciled changed.
func (r *Reconciler) setConditions(status *druidv1alpha1.EtcdStatus, o engine.Result, others ...*druidv1alpha1.Condition) bool {
	before := conditions.Find(status.Conditions, druidv1alpha1.ConditionTypeReconciled)
	conditions.ForEtcd(status, r.Clock.Now(), append(others, conditions.Reconciled(o.Reason, o.Description))...)
	after := conditions.Find(status.Conditions, druidv1alpha1.ConditionTypeReconciled)
	return before == nil || before.Status != after.Status || before.Reason != after.Reason || before.Message != after.Message
}

// emitEvents emits an event for each condition of this controller, except Reconciled, whose change needs one. It omits the reason that was
// emitted already.
func (r *Reconciler) emitEvents(before, after *druidv1alpha1.Etcd, emitted string) {
	for _, conditionType := range conditions.EtcdTypes() {
		now := conditions.Find(after.Status.Conditions, conditionType)
		if now == nil || conditionType == druidv1alpha1.ConditionTypeReconciled || now.Reason == emitted ||
			!conditions.ShouldEmitEvent(conditions.Find(before.Status.Conditions, conditionType), now) {
			continue
		}
		eventType := corev1.EventTypeNormal
		if conditions.IsAbnormal(now) && conditionType != druidv1alpha1.ConditionTypeAllMembersUpdated { // each rolling update begins with it
			eventType = corev1.EventTypeWarning
		}
		r.event(after, eventType, now.Reason, "Condition %s is %s: %s", now.Type, now.Status, now.Message)
	}
}

// inputOf returns the input of conditions that follow from a run.
func (r *Reconciler) inputOf(run *engine.Run, next *druidv1alpha1.Etcd) conditions.Input {
	canonical := run.Target.Etcd.DeepCopy()
	next.Status.DeepCopyInto(&canonical.Status)
	o := run.Observation
	if run.Plan.Existing != nil {
		o.State.Existing = run.Plan.Existing // the status reports a removal as soon as it is recorded
	}
	return conditions.Input{Etcd: canonical, Observation: o, Now: r.Clock.Now()}
}

// keepsPods is true if the current generation is rolled out, or the last accepted one while the newest one is blocked. Pods that another
// version of the operator then outdates wait for the next operation.
func keepsPods(next *druidv1alpha1.Etcd, o engine.Result) bool {
	return target.IsCompleted(next) || o.Accepted != nil && o.Accepted.Target.IsCompleted()
}

// setObserved sets what follows from the observation, and returns the condition AllMembersUpdated.
func (r *Reconciler) setObserved(run *engine.Run, next *druidv1alpha1.Etcd, keepsPods bool) *druidv1alpha1.Condition {
	in := r.inputOf(run, next)
	canonical := in.Etcd
	counts := conditions.CountsFor(canonical, run.Observation, keepsPods)
	next.Status.Replicas, next.Status.CurrentReplicas, next.Status.ReadyReplicas = counts.Replicas, counts.CurrentReplicas, counts.ReadyReplicas
	next.Status.Ready = new(counts.Ready)
	next.Status.Selector = new(helper.Selector(canonical))
	if run.Observation.StatefulSet.Exists {
		next.Status.Etcd = &druidv1alpha1.CrossVersionObjectReference{
			APIVersion: appsv1.SchemeGroupVersion.String(),
			Kind:       "StatefulSet",
			Name:       run.Observation.StatefulSet.Name,
		}
	}
	return conditions.AllMembersUpdated(in)
}

// operationFor returns Create until the members of an Etcd were rolled out for the first time. An operation that has ended keeps its type.
func operationFor(etcd *druidv1alpha1.Etcd) druidv1alpha1.LastOperationType {
	last := etcd.Status.LastOperation
	hasRun := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeScaleOperationComplete) != nil
	switch {
	case last == nil && etcd.Status.ObservedGeneration == nil:
		return druidv1alpha1.LastOperationTypeCreate
	case last != nil && (target.IsCompleted(etcd) || last.Type == druidv1alpha1.LastOperationTypeCreate && (helper.IsCreating(etcd) || !hasRun)):
		return last.Type
	default:
		return druidv1alpha1.LastOperationTypeReconcile
	}
}

// isCreating is true for an Etcd in the cache that has not been rolled out for the first time, and is not being deleted.
func (r *Reconciler) isCreating(ctx context.Context, request reconcile.Request) bool {
	etcd := &druidv1alpha1.Etcd{}
	if err := r.cached().Get(ctx, request.NamespacedName, etcd); err != nil {
		return false // it was deleted, or the reconciliation reports the error
	}

	return etcd.DeletionTimestamp == nil && helper.IsCreating(etcd)
}

// setOperation records an outcome as last operation and last errors. What did not change keeps its time and run.
func (r *Reconciler) setOperation(ctx context.Context, etcd *druidv1alpha1.Etcd, operation druidv1alpha1.LastOperationType, o engine.Result) {
	now := metav1.NewTime(r.Clock.Now().Truncate(time.Second))
	last := etcd.Status.LastOperation
	if last == nil || last.Type != operation || last.State != o.State || last.Description != o.Description {
		etcd.Status.LastOperation = &druidv1alpha1.LastOperation{
			Type:           operation,
			State:          o.State,
			Description:    o.Description,
			RunID:          string(controller.ReconcileIDFromContext(ctx)),
			LastUpdateTime: now,
		}
	}

	lastErrors := slices.Clone(o.Errors)
	for i := range lastErrors {
		lastErrors[i].ObservedAt = now
		for _, before := range etcd.Status.LastErrors {
			if before.Code == lastErrors[i].Code && before.Description == lastErrors[i].Description {
				lastErrors[i].ObservedAt = before.ObservedAt
			}
		}
	}
	etcd.Status.LastErrors = lastErrors
}
