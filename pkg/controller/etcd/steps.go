// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/orphan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// lockCooldown is how long another controller waits after a pod was replaced, until the caches show the change.
const lockCooldown = 5 * time.Second

// Do implements engine.Executor. It counts the step.
func (r *execution) Do(ctx context.Context, run *engine.Run, step plan.Step, reason string) error {
	traits, object := plan.TraitsOf(step), plan.MetaOf(step).Object
	if traits.InterruptsMember {
		if !r.Locks.TryLock(run.Target.Stored.UID, ControllerName) {
			return waitForMembers("Waiting for the end of a defragmentation (%s)", reason)
		}
		if _, isCall := step.(plan.DefragmentMember); !isCall { // its call releases the lock
			defer r.Locks.Unlock(run.Target.Stored.UID, lockCooldown)
		}
	}
	logf.FromContext(ctx).Info("Executing step", "step", traits.Kind, "object", object, "reason", reason)
	err := r.do(ctx, run, step, reason)
	measureStep(run.Target.Stored, step, err)
	if err == nil {
		writeguard.Add(ctx, fmt.Sprintf("step %s of %s", traits.Kind, object)) // etcd was written to, if not the API server
	}
	return err
}

func (r *execution) do(ctx context.Context, run *engine.Run, step plan.Step, reason string) error {
	etcd := run.Target.Etcd
	switch step := step.(type) {
	case plan.DeletePod:
		r.event(etcd, corev1.EventTypeNormal, "ReplacingPod", "Deleting pod %s: %s", step.Object, reason)
		return r.deleteObject(ctx, &corev1.Pod{ObjectMeta: objectMeta(etcd, step)}, deleteOptionsOf(step)...)
	case plan.EvictPod:
		return r.evict(ctx, etcd, step, reason)
	case plan.MoveLeader:
		return r.moveLeader(ctx, run, step, reason)
	case plan.PromoteMember, plan.RemoveMember:
		return r.changeMembership(ctx, run, step, reason)
	case plan.SelectPod, plan.RefreshPod, plan.ExcludePod:
		return r.patchPod(ctx, etcd, step, reason)
	case plan.UpdatePeerURLs:
		return r.updatePeerURLs(ctx, run, step, reason)
	case plan.ResizeClaim, plan.ReplaceClaim, plan.DeleteClaim:
		return r.changeClaim(ctx, etcd, step, reason)
	case plan.VerifyRestore, plan.InspectClaim, plan.RecoverData, plan.ResumeJob:
		return r.createRestoreJob(ctx, run, step, reason)
	case plan.DeleteRestoreJob:
		return r.deleteRestoreJob(ctx, etcd, step)
	case plan.RetainVolume, plan.ReleaseVolume:
		return r.changeReclaimPolicy(ctx, etcd, step, reason)
	case plan.ResetLease:
		return r.deleteObject(ctx, &coordinationv1.Lease{ObjectMeta: objectMeta(etcd, step)}, preconditionsOf(step))
	case plan.RecreateStatefulSet:
		return r.recreateStatefulSet(ctx, run, step, reason)
	case plan.TakeSnapshot:
		return r.takeSnapshot(ctx, etcd, &run.Observation, step)
	case plan.TakeDeltaSnapshot, plan.CompactHistory, plan.DefragmentMember, plan.DisarmAlarm, plan.CountKeys, plan.RequestSnapshot:
		return r.freeSpace(ctx, run, step, reason)
	case plan.RequestReconcile:
		r.event(etcd, corev1.EventTypeNormal, "RepairingDrift", "Requesting ManagedResource %s to be applied again: %s", step.Object, reason)
		return r.requestApply(ctx, r.current, repairsOf(r.current, run.Rendered).With(r.Clock.Now(), statefulSetObject(etcd)))
	default:
		return fmt.Errorf("unknown step %T", step)
	}
}

// changeClaim resizes or deletes a claim.
func (r *execution) changeClaim(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.Step, reason string) error {
	if resize, is := step.(plan.ResizeClaim); is {
		return r.resizeClaim(ctx, etcd, resize, reason)
	}
	return r.deleteClaim(ctx, etcd, step, reason)
}

// deleteOptionsOf returns the preconditions and the grace period of the deletion of a pod.
func deleteOptionsOf(step plan.DeletePod) []client.DeleteOption {
	options := []client.DeleteOption{preconditionsOf(step)}
	if step.GracePeriod > 0 {
		options = append(options, client.GracePeriodSeconds(step.GracePeriod))
	}
	return options
}

// recreateStatefulSet deletes the StatefulSet without its pods, after a dry run has shown that the API server would create the new one. The
// StatefulSet exists until releasePods.
func (r *execution) recreateStatefulSet(ctx context.Context, run *engine.Run, step plan.RecreateStatefulSet, reason string) error {
	etcd := run.Target.Etcd
	if _, err := r.dryRun(ctx, run.Rendered.Objects); err != nil {
		return err
	}
	live := &appsv1.StatefulSet{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: step.Object}, live); err != nil || live.UID != step.UID {
		return client.IgnoreNotFound(err)
	}
	r.event(etcd, corev1.EventTypeNormal, "RecreatingStatefulSet", "Deleting StatefulSet %s without its pods: %s", step.Object, reason)
	if err := orphan.Delete(ctx, r.Client, live); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the next reconciliation decides again
	} else if err != nil {
		return err
	}
	return r.requestApply(ctx, r.current, repairsOf(r.current, run.Rendered).Without(statefulSetObject(etcd)))
}

// objectMeta identifies the object of a step.
func objectMeta(etcd *druidv1alpha1.Etcd, step plan.Step) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: etcd.Namespace, Name: plan.MetaOf(step).Object}
}

// preconditionsOf returns the preconditions of a step: the object is the observed one and, if its state decided, has not changed.
func preconditionsOf(step plan.Step) client.Preconditions {
	meta := plan.MetaOf(step)
	preconditions := client.Preconditions{UID: new(meta.UID)}
	if meta.ResourceVersion != "" {
		preconditions.ResourceVersion = new(meta.ResourceVersion)
	}
	return preconditions
}
