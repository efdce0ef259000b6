// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// storeRecovery creates the Job that copies the data of a recovery into the store. It leaves a Job alone that exists already, and refuses one of
// something else.
func (r *execution) storeRecovery(ctx context.Context, run *engine.Run, step plan.RecoverData) error {
	values, err := r.restoreVerificationValues(run)
	if err != nil {
		return err
	}
	if err := compaction.RecoveryErrors(values.Store); err != nil {
		return fmt.Errorf("recovering the cluster: %w", err)
	}
	values.Deadline = etcdcluster.RecoveryDeadline
	data := compaction.RecoveryData{MinRevision: step.MinRevision, Bump: step.Bump, BumpBelow: step.BumpBelow, Token: step.Token}
	if step.Claim != "" {
		index := slices.IndexFunc(run.Observation.Claims, func(c etcdcluster.Claim) bool { return c.Name == step.Claim && c.UID == step.ClaimUID })
		if index < 0 {
			return nil // the next reconciliation decides again
		}
		data.Claim = &compaction.InspectedClaim{Name: step.Claim, UID: step.ClaimUID, Ordinal: run.Observation.Claims[index].Ordinal}
	}
	job := compaction.RecoveryJob(values, data)
	switch err := r.Client.Create(ctx, job); {
	case apierrors.IsAlreadyExists(err):
		return r.checkOwnership(ctx, run.Target.Stored, nil, []client.Object{job})
	case err != nil:
		return fmt.Errorf("creating Job %s: %w", job.Name, err)
	}
	return nil
}

// resumeJob resumes a suspended Job. The UID in the patch is a precondition.
func (r *execution) resumeJob(ctx context.Context, run *engine.Run, step plan.Step, reason string) error {
	job := &batchv1.Job{ObjectMeta: objectMeta(run.Target.Etcd, step)}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"suspend":false}}`, plan.MetaOf(step).UID))
	switch err := r.Client.Patch(ctx, job, patch); {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return nil // the next reconciliation decides again
	case err != nil:
		return fmt.Errorf("resuming Job %s: %w", job.Name, err)
	}
	r.event(run.Target.Stored, corev1.EventTypeNormal, "StoringRecovery", "Job %s copies the data into the backup store: %s", job.Name, reason)
	return nil
}

// deleteRestoreJob deletes a Job. One that copies data into the store stays until its pod is gone: a pod that runs on could add a snapshot later.
func (r *execution) deleteRestoreJob(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.Step) error {
	propagation := client.PropagationPolicy(metav1.DeletePropagationBackground)
	job := &batchv1.Job{ObjectMeta: objectMeta(etcd, step)}
	if job.Name == helper.RecoveryJobName(etcd) {
		propagation = client.PropagationPolicy(metav1.DeletePropagationForeground)
	}
	return r.deleteObject(ctx, job, preconditionsOf(step), propagation)
}

// announceRecovery reports that a recovery from a lost quorum begins, or that it is withdrawn.
func (r *execution) announceRecovery(run *engine.Run) {
	before, after := run.Observation.State.Restore, run.NextState().Restore
	switch {
	case before != state.RestoreRecover && after == state.RestoreRecover:
		r.event(run.Target.Stored, corev1.EventTypeWarning, "RecoveringQuorum", "All members are stopped: %s", run.Rendered.Plan.Reason)
	case before == state.RestoreRecover && after == state.RestoreNone:
		r.event(run.Target.Stored, corev1.EventTypeWarning, "RecoveryWithdrawn", "No volume was deleted; %s", run.Rendered.Plan.Reason)
	}
}

// quorumRecoverable returns the condition of a quorum that is lost forever. Nil: it is not.
func (r *Reconciler) quorumRecoverable(o engine.Result) *druidv1alpha1.Condition {
	if recovery := o.Recovering(); recovery != nil {
		return conditions.QuorumRecovering(recovery.String())
	}
	loss, waits := o.QuorumLoss(r.Clock.Now())
	if loss == nil {
		return nil
	}
	return conditions.QuorumRecoverable(loss.Policy, loss.IsRecoverable(), waits, loss.String())
}
