// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/compaction"
	componentcompaction "github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/storejob"
)

// snapshotTTL is the time to live of a finished task that takes a full snapshot, in seconds. While the task exists and the
// store has no newer full snapshot, the controller creates no other task.
const snapshotTTL int32 = 3600

// runJob creates the Job. It first deletes an existing Job in the background, because the new one has all data that the next
// decision needs.
func (r *Reconciler) runJob(ctx context.Context, etcd *druidv1alpha1.Etcd, obs observation, decision compaction.Decision) (reconcile.Result, error) {
	values, waitsFor, err := storejob.Values(ctx, r.Observer, r.Config.LocalStoreRoots, r.Config.Restrictions, etcd)
	if err != nil {
		return reconcile.Result{}, err
	}
	if waitsFor != "" {
		logf.FromContext(ctx).Info("Waiting before compacting snapshots", "for", waitsFor)
		r.event(etcd, corev1.EventTypeNormal, "CompactionPending", "Waiting before compacting snapshots for %s", waitsFor)
		return reconcile.Result{RequeueAfter: storePause}, nil
	}
	values.Deadline, values.MetricsScrapeWait = r.Config.Deadline, r.Config.MetricsScrapeWait
	values.Attempt, values.Task, values.BaseRevision = decision.Attempt, obs.Task, obs.FullSnapshotLease.Holder
	if err := r.deleteJob(ctx, obs.job, metav1.DeletePropagationBackground); err != nil {
		return reconcile.Result{}, err
	}
	job := componentcompaction.Job(values)
	if err := r.Client.Create(ctx, job); apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: existsPause}, r.checkOwner(ctx, etcd, job.Name)
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("creating Job %s: %w", job.Name, err)
	}
	r.event(etcd, corev1.EventTypeNormal, "CompactionStarted", "Job %s compacts the snapshots (attempt %d): %s", job.Name, decision.Attempt, decision.Reason)

	return reconcile.Result{}, nil
}

// checkOwner returns an error for a Job that the Etcd does not own. The cache holds only Jobs with the labels of an Etcd.
func (r *Reconciler) checkOwner(ctx context.Context, etcd *druidv1alpha1.Etcd, name string) error {
	job := &batchv1.Job{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: name}, job); err != nil {
		return client.IgnoreNotFound(err)
	}
	if metav1.IsControlledBy(job, etcd) {
		return nil
	}
	err := foreignJob(etcd, name)
	r.event(etcd, corev1.EventTypeWarning, "CompactionFailed", "%s", err)

	return err
}

// foreignJob returns the error for a Job that exists and does not belong to the Etcd.
func foreignJob(etcd *druidv1alpha1.Etcd, name string) error {
	return fmt.Errorf("metadata.name: Job %s in namespace %s exists and does not belong to this Etcd: delete it if nothing needs it, or create the Etcd with another name", name, etcd.Namespace)
}

// deleteJob deletes the Job with this UID. Nil: it does nothing.
func (r *Reconciler) deleteJob(ctx context.Context, job *batchv1.Job, propagation metav1.DeletionPropagation) error {
	if job == nil {
		return nil
	}
	if err := r.Client.Delete(ctx, job, client.PropagationPolicy(propagation), client.Preconditions{UID: &job.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Job %s: %w", job.Name, err)
	}

	return nil
}

// takeSnapshot creates a task for a full snapshot. The task controller calls the sidecar, retries, and continues after a
// restart.
func (r *Reconciler) takeSnapshot(ctx context.Context, etcd *druidv1alpha1.Etcd, obs observation, decision compaction.Decision) error {
	labels := helper.DefaultLabels(etcd)
	labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameOpsTask
	seconds := max(int32(helper.SnapshotTimeout(etcd).Seconds()), 120) // #nosec G115 -- a time limit of years is not meant
	task := &druidv1alpha1.EtcdOpsTask{
		ObjectMeta: metav1.ObjectMeta{
			Name:            etcd.Name + "-compaction-" + obs.FullSnapshotLease.Holder,
			Namespace:       etcd.Namespace,
			Labels:          labels,
			Annotations:     map[string]string{druidv1alpha1.CompactionBaseAnnotation: obs.FullSnapshotLease.Holder},
			OwnerReferences: []metav1.OwnerReference{helper.OwnerReference(etcd)},
		},
		Spec: druidv1alpha1.EtcdOpsTaskSpec{
			EtcdName:                new(etcd.Name),
			TTLSecondsAfterFinished: new(snapshotTTL),
			Config: druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{
				Type: druidv1alpha1.OnDemandSnapshotTypeFull, TimeoutSecondsFull: new(seconds),
			}},
		},
	}
	if err := r.Client.Create(ctx, task); err != nil {
		return fmt.Errorf("creating EtcdOpsTask %s: %w", task.Name, err)
	}
	r.event(etcd, corev1.EventTypeNormal, "FullSnapshotTriggered", "EtcdOpsTask %s takes a full snapshot instead of a compaction: %s", task.Name, decision.Reason)

	return nil
}

// recordJob reports the outcome of the Job in the condition and in the metrics. It then annotates the Job as recorded.
func (r *Reconciler) recordJob(ctx context.Context, etcd *druidv1alpha1.Etcd, obs observation) error {
	job := *obs.Job
	status := druidv1alpha1.ConditionFalse
	if job.Outcome == druidv1alpha1.PodSuccessReasonNone {
		status = druidv1alpha1.ConditionTrue
	}
	if err := r.setCondition(ctx, etcd, status, job.Outcome, job.Message); err != nil {
		return err
	}
	if err := r.annotate(ctx, obs.job, druidv1alpha1.CompactionRecordedAnnotation, job.Outcome); err != nil {
		return err
	}
	countJob(client.ObjectKeyFromObject(etcd), job)

	return nil
}

// recordSnapshot reports the outcome of the full snapshot in the same way.
func (r *Reconciler) recordSnapshot(ctx context.Context, etcd *druidv1alpha1.Etcd, obs observation) error {
	status, reason := druidv1alpha1.ConditionFalse, druidv1alpha1.FullSnapshotFailureReason
	if obs.Snapshot.Taken {
		status, reason = druidv1alpha1.ConditionTrue, druidv1alpha1.FullSnapshotSuccessReason
	}
	if err := r.setCondition(ctx, etcd, status, reason, obs.Snapshot.Message); err != nil {
		return err
	}
	if err := r.annotate(ctx, obs.snapshot, druidv1alpha1.CompactionRecordedAnnotation, reason); err != nil {
		return err
	}
	countSnapshot(client.ObjectKeyFromObject(etcd), obs.Snapshot.Taken)

	return nil
}

// setCondition writes the condition LastSnapshotCompactionSucceeded, which only this controller writes, and an event.
func (r *Reconciler) setCondition(ctx context.Context, etcd *druidv1alpha1.Etcd, status druidv1alpha1.ConditionStatus, reason, message string) error {
	const conditionType = druidv1alpha1.ConditionTypeLastSnapshotCompactionSucceeded
	stored := &druidv1alpha1.Etcd{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(etcd), stored); err != nil {
		return fmt.Errorf("reading the Etcd: %w", err)
	}
	isOther := func(latest *druidv1alpha1.Etcd) bool { return latest.UID != etcd.UID }
	if err := r.Versions.Write(ctx, r.Reader, stored, isOther, func() error {
		updated := stored.DeepCopy()
		updated.Status.Conditions = conditions.Merge(stored.Status.Conditions, []druidv1alpha1.ConditionType{conditionType},
			[]druidv1alpha1.Condition{{Type: conditionType, Status: status, Reason: reason, Message: message}}, r.Clock.Now())
		if err := r.Client.Status().Patch(ctx, updated, client.MergeFromWithOptions(stored.DeepCopy(), client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("patching the status: %w", err)
		}
		updated.DeepCopyInto(stored)

		return nil
	}); err != nil {
		return err
	}
	if status == druidv1alpha1.ConditionTrue {
		r.event(etcd, corev1.EventTypeNormal, "CompactionSucceeded", "%s", message)
	} else {
		r.event(etcd, corev1.EventTypeWarning, "CompactionFailed", "%s: %s", reason, message)
	}

	return nil
}

func (r *Reconciler) event(etcd *druidv1alpha1.Etcd, eventType, reason, format string, args ...any) {
	r.Recorder.Eventf(etcd, nil, eventType, reason, "Compact", format, args...)
}
