// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// takeRestoreAnnotation removes the annotation that asks for a restore from the Etcd in memory, once the restore is remembered. It
// returns whether anything was removed.
func (r *Reconciler) takeRestoreAnnotation(run *engine.Run, etcd *druidv1alpha1.Etcd) bool {
	_, found := etcd.Annotations[druidv1alpha1.RestoreAnnotation]
	if !found || !run.Observed || !isDiscarding(run) {
		return false
	}
	r.event(run.Target.Stored, corev1.EventTypeWarning, "Restoring", "The volumes of all members are discarded, and the cluster is restored from its store")
	delete(etcd.Annotations, druidv1alpha1.RestoreAnnotation)
	return true
}

func isDiscarding(run *engine.Run) bool {
	return run.Observation.State.Restore == state.RestoreDiscard
}

// ignoreRestore removes the annotation that asks for a restore when it is ignored: it must not come into force later, when somebody
// has forgotten it. That is told once it is so.
func (r *Reconciler) ignoreRestore(ctx context.Context, run *engine.Run) error {
	if !run.Observed || isDiscarding(run) {
		return nil
	}
	_, ignored := planner.EvaluateRestore(run.Target.Etcd, run.Observation, r.Clock.Now())
	if ignored == "" {
		return nil
	}
	if err := r.recordRehearsal(ctx, run); err != nil {
		return err
	}
	value := run.Target.Etcd.Annotations[druidv1alpha1.RestoreAnnotation]
	removed, err := r.removeRestore(ctx, run.Target.Stored, value)
	if removed {
		r.event(run.Target.Stored, corev1.EventTypeWarning, "RestoreIgnored", "The annotation %s=%s has no effect: %s", druidv1alpha1.RestoreAnnotation, value, ignored)
	}
	return err
}

// removeRestore removes the annotation if it asks for the same still, and returns whether it did. That somebody else has written to
// the Etcd meanwhile is no reason to leave it: the next pass would rehearse once more.
func (r *Reconciler) removeRestore(ctx context.Context, judged *druidv1alpha1.Etcd, value string) (removed bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		etcd := &druidv1alpha1.Etcd{}
		if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(judged), etcd); err != nil {
			return client.IgnoreNotFound(err)
		}
		if asked, found := etcd.Annotations[druidv1alpha1.RestoreAnnotation]; !found || asked != value || etcd.UID != judged.UID {
			return nil
		}
		before := etcd.DeepCopy()
		delete(etcd.Annotations, druidv1alpha1.RestoreAnnotation)
		if err := r.Client.Patch(ctx, etcd, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return client.IgnoreNotFound(err)
		}
		removed = true
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("removing the annotation %s: %w", druidv1alpha1.RestoreAnnotation, err)
	}
	return removed, nil
}

// deleteClaim deletes a claim of a cluster that is restored from its backup store.
func (r *Reconciler) deleteClaim(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.DeleteClaim, reason string) error {
	r.event(etcd, corev1.EventTypeWarning, "DiscardingVolume", "Deleting PersistentVolumeClaim %s: %s", step.Object, reason)
	if err := r.deleteObject(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta(etcd, step)}, preconditionsOf(step)); err != nil {
		return fmt.Errorf("discarding PersistentVolumeClaim %s: %w", step.Object, err)
	}
	return nil
}
