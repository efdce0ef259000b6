// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// ignoredReason are the reasons of events for requests that have no effect, by their annotations.
var ignoredReason = map[string]string{
	druidv1alpha1.RotateCAAnnotation:       "RotationIgnored",
	druidv1alpha1.AcceptRevisionAnnotation: "RevisionIgnored",
	druidv1alpha1.RecoverAnnotation:        "RecoveryIgnored",
	druidv1alpha1.RestoreAnnotation:        "RestoreIgnored",
}

// emitRequests emits events for the requests whose annotations were removed.
func (r *Reconciler) emitRequests(etcd *druidv1alpha1.Etcd, o engine.Result) {
	recorded := o.Newest.Observation.State
	for _, request := range o.Requests {
		switch {
		case request.Ignored != "":
			r.event(etcd, corev1.EventTypeWarning, ignoredReason[request.Annotation], "The annotation %s=%s has no effect: %s", request.Annotation, request.Value, request.Ignored)
		case request.Annotation == druidv1alpha1.RestoreAnnotation:
			r.event(etcd, corev1.EventTypeWarning, "Restoring", "The claims of all members are deleted, and the cluster is restored from its store: %s", recorded.Verified.String())
		case request.Annotation == druidv1alpha1.AcceptRevisionAnnotation && recorded.Restore != state.RestoreNone:
			r.event(etcd, corev1.EventTypeWarning, "RevisionAccepted", "The operator restores the cluster with revision %s or a higher one: a user accepts the loss of later writes (%s)", request.Value, recorded.Verified.String())
		case request.Annotation == druidv1alpha1.AcceptRevisionAnnotation:
			r.event(etcd, corev1.EventTypeWarning, "RevisionAccepted", "The operator continues with revision %s: a user accepts the loss of the writes after it", request.Value)
		}
	}
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
