// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// verifyRestore creates the Job that verifies that the store can be restored from, with the images and the store of the members. It leaves
// a Job alone that exists already, and refuses one of something else.
func (r *execution) verifyRestore(ctx context.Context, run *engine.Run, reason string) error {
	values, err := r.restoreVerificationValues(run)
	if err != nil {
		return err
	}
	job := compaction.RestoreVerificationJob(values)
	switch err := r.Client.Create(ctx, job); {
	case apierrors.IsAlreadyExists(err):
		return r.checkOwnership(ctx, run.Target.Stored, nil, []client.Object{job})
	case err != nil:
		return fmt.Errorf("creating Job %s: %w", job.Name, err)
	}
	r.event(run.Target.Stored, corev1.EventTypeNormal, "VerifyingRestore", "Job %s restores from the store: %s", job.Name, reason)
	return nil
}

func (r *execution) restoreVerificationValues(run *engine.Run) (compaction.Values, error) {
	if err := run.Target.ResolveStore(run.Observation, r.Config, r.Clock.Now()); err != nil {
		return compaction.Values{}, err
	}
	store := run.Target.Store
	if store == nil {
		return compaction.Values{}, fmt.Errorf("verifying a restore: spec.backup.store is not set")
	}
	images := r.Config.Defaults.ImagesOf(run.Planned.EtcdVersion)
	if recorded := run.Observation.State; recorded.Accepted != nil {
		images = recorded.Accepted.Defaults.ImagesOf(recorded.EtcdVersion)
	}
	values := compaction.Values{Etcd: run.Target.Etcd, Store: *store, Image: images.BackupRestore, Deadline: etcdcluster.RestoreVerificationDeadline}
	if err := r.setHelper(&values); err != nil {
		return compaction.Values{}, fmt.Errorf("verifying a restore: %w", err)
	}
	if pod := run.Observation.PodFor(0); pod != nil && store.Provider == backupstore.ProviderLocal {
		values.Node = pod.Node // where the first member ran, and restores unless its node is full
	}
	return values, nil
}

// recordRestoreVerification records on a Job that has ended that its result was used, or is not needed. The next restore then needs a new Job.
func (r *Reconciler) recordRestoreVerification(ctx context.Context, run *engine.Run) error {
	job := run.Observation.RestoreVerification
	outcome := "succeeded"
	if job.Failed {
		outcome = "failed"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": job.UID, "annotations": map[string]string{druidv1alpha1.CompactionRecordedAnnotation: outcome},
	}})
	if err != nil {
		return fmt.Errorf("writing the patch of Job %s: %w", job.Name, err)
	}
	if err := r.Client.Patch(ctx, restoreVerificationJob(run.Target.Etcd), client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("recording that the result of Job %s was used: %w", job.Name, err)
	}
	return nil
}

func restoreVerificationJob(etcd *druidv1alpha1.Etcd) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: helper.RestoreVerificationJobName(etcd)}}
}

// createRestoreJob creates a Job that reads a revision before a restore, or one that stores data before it, or resumes that.
func (r *execution) createRestoreJob(ctx context.Context, run *engine.Run, step plan.Step, reason string) error {
	if recovery, is := step.(plan.RecoverData); is {
		return r.storeRecovery(ctx, run, recovery)
	}
	if _, is := step.(plan.ResumeJob); is {
		return r.resumeJob(ctx, run, step, reason)
	}
	if inspect, is := step.(plan.InspectClaim); is {
		return r.inspectClaim(ctx, run, inspect, reason)
	}
	return r.verifyRestore(ctx, run, reason)
}

// inspectClaim creates the Job that reads the revision in the volume of a claim. The step is repeated if the claim is another one by now.
func (r *execution) inspectClaim(ctx context.Context, run *engine.Run, step plan.InspectClaim, reason string) error {
	for _, claim := range run.Observation.Claims {
		if claim.Name == step.Object && claim.UID == step.UID {
			return r.createInspectionJob(ctx, run, claim, reason)
		}
	}
	return nil
}
