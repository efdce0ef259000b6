// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
)

// observation is what is decided from, with what was found on the way.
type observation struct {
	opstask.Task
	// etcd is the Etcd in its canonical form. Nil: there is none, or nothing can be done to it.
	etcd *druidv1alpha1.Etcd
	// exists is true when there is the Etcd, whatever can be done to it.
	exists bool
	// outcome is what the call came to, where Call.Ended.
	outcome Outcome
}

// observe reads everything from the caches.
func (r *Reconciler) observe(ctx context.Context, task *druidv1alpha1.EtcdOpsTask) (observation, error) {
	obs := observation{Task: taskFor(task)}
	if obs.Deleting || helper.IsTaskFinished(task) {
		return obs, nil
	}
	stored, err := r.etcdOf(ctx, task)
	if err != nil {
		return observation{}, err
	}
	obs.exists = stored != nil
	obs.Refusal = opstask.RefusalOf(task, stored)
	if obs.Refusal == nil {
		obs.etcd, _ = helper.Canonical(stored)
		if obs.Precondition, err = r.preconditionFor(ctx, task, obs.etcd); err != nil {
			return observation{}, err
		}
		obs.Limits = opstask.LimitsFor(task, obs.etcd, r.JobDeadline)
	}
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := r.Client.List(ctx, tasks, client.InNamespace(task.Namespace)); err != nil {
		return observation{}, fmt.Errorf("listing EtcdOpsTasks: %w", err)
	}
	obs.WaitsForTask = opstask.WaitsForTask(task, tasks.Items)
	if obs.State != druidv1alpha1.TaskStateInProgress {
		return obs, nil
	}
	if helper.TaskKind(task) == druidv1alpha1.RunTaskCompaction {
		return obs, r.readJob(ctx, task, &obs)
	}
	r.readCall(task, &obs)

	return obs, nil
}

// readCall sees how the call is that runs for the task, or has run.
func (r *Reconciler) readCall(task *druidv1alpha1.EtcdOpsTask, obs *observation) {
	outcome, running, found := r.Calls.Outcome(task.UID)
	if running {
		obs.Call.Running = true // what the attempt before came to is on the task

		return
	}
	obs.outcome = outcome
	obs.Call = opstask.Call{Ended: found, Problem: outcome.Problem}
}

// taskFor says what the task itself tells.
func taskFor(task *druidv1alpha1.EtcdOpsTask) opstask.Task {
	t := opstask.Task{
		State:          ptr.Deref(task.Status.State, ""),
		Deleting:       task.DeletionTimestamp != nil,
		TTL:            time.Duration(ptr.Deref(task.Spec.TTLSecondsAfterFinished, 3600)) * time.Second,
		FailedAttempts: len(task.Status.LastErrors),
	}
	if task.Status.LastTransitionTime != nil {
		t.Since = task.Status.LastTransitionTime.Time
	}
	if task.Status.StartedAt != nil {
		t.StartedAt = task.Status.StartedAt.Time
	}
	if t.FailedAttempts > 0 {
		t.LastFailure = task.Status.LastErrors[t.FailedAttempts-1].ObservedAt.Time
	}

	return t
}

// etcdOf reads the Etcd of the task. Nil: there is none, or the task names none.
func (r *Reconciler) etcdOf(ctx context.Context, task *druidv1alpha1.EtcdOpsTask) (*druidv1alpha1.Etcd, error) {
	name := ptr.Deref(task.Spec.EtcdName, "")
	if name == "" {
		return nil, nil
	}
	etcd := &druidv1alpha1.Etcd{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: name}, etcd); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}

		return nil, fmt.Errorf("reading the Etcd: %w", err)
	}

	return etcd, nil
}

// preconditionFor is what the status of the Etcd tells or, where a Job is asked for, what is remembered about it.
func (r *Reconciler) preconditionFor(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd) (*opstask.Problem, error) {
	if helper.TaskKind(task) == druidv1alpha1.RunTaskCompaction {
		return r.preconditionForJob(ctx, etcd)
	}
	if ready := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeReady); ready == nil || ready.Status != druidv1alpha1.ConditionTrue {
		return &opstask.Problem{Code: druidv1alpha1.ErrorCodeEtcdNotReady, Message: "Waiting for the condition Ready of the Etcd to be True"}, nil
	}

	return nil, nil
}

// preconditionForJob is why no Job can be made: its controller would wait without a word on the task.
func (r *Reconciler) preconditionForJob(ctx context.Context, etcd *druidv1alpha1.Etcd) (*opstask.Problem, error) {
	waiting := func(what string) *opstask.Problem {
		return &opstask.Problem{Code: druidv1alpha1.ErrorCodeEtcdNotReady, Message: "Waiting for " + what}
	}
	if helper.IsSuspended(etcd) {
		return waiting("the Etcd to be no longer suspended"), nil
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ManagedResource %s: %w", helper.ManagedResourceName(etcd), err)
	}
	if mr.Annotations[druidv1alpha1.ManagedResourceAnnotationDefaults] == "" {
		return waiting("the Etcd to be rolled out by this operator, whose images a Job is run with; one that was taken over needs its next operation annotation"), nil
	}
	if resolved := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeStoreResolved); resolved != nil && resolved.Status == druidv1alpha1.ConditionFalse {
		return waiting("the store to be found: " + resolved.Message), nil
	}

	return nil, nil
}

// readJob sees how the Job is that compacts snapshots for the task. Its controller makes it, and repeats it.
func (r *Reconciler) readJob(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, obs *observation) error {
	obs.Call.Running = obs.Precondition == nil
	if obs.etcd == nil {
		return nil
	}
	job := &batchv1.Job{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: helper.CompactionJobName(obs.etcd)}, job); err != nil {
		return client.IgnoreNotFound(err)
	}
	found := compaction.JobFor(job, []corev1.Pod(nil))
	recorded := job.Annotations[druidv1alpha1.CompactionRecordedAnnotation]
	if found.Task != task.UID || recorded == "" || !found.IsLast() {
		return nil
	}
	obs.Precondition = nil // the Job was made, and has ended
	if recorded == druidv1alpha1.PodSuccessReasonNone {
		// What it wrote is asked for beside the workers.
		r.readCall(task, obs)

		return nil
	}
	obs.Call = opstask.Call{Ended: true, Final: true}
	message := fmt.Sprintf("Job %s has failed: %s", job.Name, recorded)
	if condition := conditions.Find(obs.etcd.Status.Conditions, druidv1alpha1.ConditionTypeLastSnapshotCompactionSucceeded); condition != nil && condition.Reason == recorded {
		message = condition.Message
	}
	obs.Call.Problem = &opstask.Problem{Code: druidv1alpha1.ErrorCodeCompactSnapshots, Message: message}

	return nil
}
