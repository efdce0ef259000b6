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

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// ignoredReason are the reasons of events for requests that have no effect, by their annotations. See ignoreRestore for restores.
var ignoredReason = map[string]string{
	druidv1alpha1.RotateCAAnnotation:       "RotationIgnored",
	druidv1alpha1.AcceptRevisionAnnotation: "RevisionIgnored",
	druidv1alpha1.RecoverAnnotation:        "RecoveryIgnored",
}

// consume removes the annotations of consumed requests from an Etcd in memory. True: it removed one. Ignored requests of a restore are left:
// see ignoreRestore.
func (r *Reconciler) consume(requests []engine.Request, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	removed := false
	for _, request := range requests {
		switch {
		case request.Annotation == druidv1alpha1.RestoreAnnotation && request.Ignored != "":
			continue
		case request.Annotation == druidv1alpha1.RestoreAnnotation:
			r.event(etcd, corev1.EventTypeWarning, "Restoring", "The claims of all members are deleted, and the cluster is restored from its store: %s", o.State.Verified.String())
		case request.Annotation == druidv1alpha1.AcceptRevisionAnnotation && request.Ignored == "" && o.State.Restore != state.RestoreNone:
			r.event(etcd, corev1.EventTypeWarning, "RevisionAccepted", "The operator restores the cluster with revision %s or a higher one: a user accepts the loss of later writes (%s)", request.Value, o.State.Verified.String())
		case request.Annotation == druidv1alpha1.AcceptRevisionAnnotation && request.Ignored == "":
			r.event(etcd, corev1.EventTypeWarning, "RevisionAccepted", "The operator continues with revision %s: a user accepts the loss of the writes after it", request.Value)
		case request.Ignored != "":
			r.event(etcd, corev1.EventTypeWarning, ignoredReason[request.Annotation], "The annotation %s=%s has no effect: %s", request.Annotation, request.Value, request.Ignored)
		}
		delete(etcd.Annotations, request.Annotation)
		removed = true
	}
	return removed
}

// ignoreRestore removes the annotation of an ignored request of a restore. The event is emitted once the annotation is removed.
func (r *Reconciler) ignoreRestore(ctx context.Context, o engine.Result) error {
	for _, request := range o.Requests {
		if request.Annotation != druidv1alpha1.RestoreAnnotation || request.Ignored == "" {
			continue
		}
		removed, err := r.removeRestore(ctx, o.Newest.Target.Stored, request.Value)
		if removed {
			r.event(o.Newest.Target.Stored, corev1.EventTypeWarning, "RestoreIgnored", "The annotation %s=%s has no effect: %s", request.Annotation, request.Value, request.Ignored)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeRestore removes the annotation if it still has the value, and returns whether it did. It tries again after a conflict: otherwise the next
// reconciliation would verify the restore once more.
func (r *Reconciler) removeRestore(ctx context.Context, requested *druidv1alpha1.Etcd, value string) (removed bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		etcd := &druidv1alpha1.Etcd{}
		if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(requested), etcd); err != nil {
			return client.IgnoreNotFound(err)
		}
		if requestedAt, found := etcd.Annotations[druidv1alpha1.RestoreAnnotation]; !found || requestedAt != value || etcd.UID != requested.UID {
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

// deleteClaim deletes a claim of a cluster that is restored from its backup store, of a removed member, or with a lost volume.
func (r *Reconciler) deleteClaim(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.Step, reason string) error {
	object, eventType, event := plan.MetaOf(step).Object, corev1.EventTypeWarning, "DeletingVolumes"
	if _, is := step.(plan.ReplaceClaim); is {
		event = "ReplacingVolume"
	}
	if deletion, is := step.(plan.DeleteClaim); is && deletion.IsRemoved {
		eventType = corev1.EventTypeNormal // the user requested it with the size
	}
	r.event(etcd, eventType, event, "Deleting PersistentVolumeClaim %s: %s", object, reason)
	if err := r.deleteObject(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta(etcd, step)}, preconditionsOf(step)); err != nil {
		return fmt.Errorf("deleting PersistentVolumeClaim %s: %w", object, err)
	}
	return nil
}

// announceRestore reports that the first member starts on a new volume and restores from the store, with the revisions that allow it.
func (r *execution) announceRestore(run *engine.Run) {
	if run.Rendered.Plan.Restore == state.RestoreStart && run.Observation.State.Restore != state.RestoreStart {
		r.event(run.Target.Stored, corev1.EventTypeNormal, "RestoringMember", "Starting member %s on a new volume, which restores from the store: %s",
			helper.MemberName(run.Target.Stored, 0), run.NextState().Verified.String())
	}
}

// announceWithdrawal reports that a restore has ended before it deleted all claims.
func (r *execution) announceWithdrawal(run *engine.Run) {
	if run.Observation.State.Restore == state.RestoreDiscard && run.NextState().Restore == state.RestoreNone {
		volumes := ""
		for _, volume := range run.Observation.State.Retained {
			volumes += " " + volume.Name
		}
		if volumes != "" {
			volumes = ". The data of deleted claims is on the retained PersistentVolumes" + volumes
		}
		r.event(run.Target.Stored, corev1.EventTypeWarning, "RestoreWithdrawn", "No further volume is deleted, and the members start again with their claims; %s%s", run.Rendered.Plan.Reason, volumes)
	}
}
