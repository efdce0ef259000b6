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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// observation is the input of the decision, with the objects that it was read from.
type observation struct {
	opstask.Task
	// etcd is the Etcd in its canonical form. Nil: it does not exist, or the task can never run on it.
	etcd *druidv1alpha1.Etcd
	// exists is true if the Etcd exists.
	exists bool
	// outcome is the result of the call if Call.Ended is true.
	outcome Outcome
}

// observe reads the input of the decision from the caches.
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
	if helper.TaskKind(task) == druidv1alpha1.RunTaskRestoreDrill {
		return obs, r.readDrill(ctx, task, &obs)
	}
	if helper.TaskKind(task) == druidv1alpha1.TaskBackupInspection {
		return obs, r.readInspection(ctx, task, &obs)
	}
	r.readCall(task, &obs)

	return obs, nil
}

// readCall reads the state of the last call of the task.
func (r *Reconciler) readCall(task *druidv1alpha1.EtcdOpsTask, obs *observation) {
	outcome, running, found := r.Calls.Outcome(task.UID)
	if running {
		obs.Call.Running = true // the status of the task has the result of the previous attempt

		return
	}
	obs.outcome = outcome
	obs.Call = opstask.Call{Ended: found, Problem: outcome.Problem}
}

// taskFor returns the part of the state that the task itself has.
func taskFor(task *druidv1alpha1.EtcdOpsTask) opstask.Task {
	t := opstask.Task{
		State:          ptr.Deref(task.Status.State, ""),
		Deleting:       task.DeletionTimestamp != nil,
		TTL:            time.Duration(ptr.Deref(task.Spec.TTLSecondsAfterFinished, 3600)) * time.Second,
		FailedAttempts: len(task.Status.LastErrors),
	}
	if notAfter, err := time.Parse(time.RFC3339, task.Annotations[druidv1alpha1.TaskNotAfterAnnotation]); err == nil {
		t.NotAfter = notAfter
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

// etcdOf reads the Etcd of the task. Nil: it does not exist, or the task names none.
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

// preconditionFor returns the unmet precondition of the task. Nil: it is met. It reads the status of the Etcd. For tasks
// that run a Job or defragment members, it also reads the ManagedResource.
func (r *Reconciler) preconditionFor(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd) (*opstask.Problem, error) {
	switch helper.TaskKind(task) {
	case druidv1alpha1.TaskBackupInspection:
		return nil, nil // it reads only the store
	case druidv1alpha1.RunTaskCompaction:
		return r.preconditionForJob(ctx, etcd)
	case druidv1alpha1.RunTaskDefragmentation:
		recorded, err := r.recordedState(ctx, etcd)
		if err != nil {
			return nil, err
		}
		if unmet := opstask.DefragmentationPrecondition(recorded); unmet != nil {
			return unmet, nil
		}
	case druidv1alpha1.RunTaskRestoreDrill:
		if unmet, err := r.preconditionForJob(ctx, etcd); unmet != nil || err != nil {
			return unmet, err
		}
	}
	if ready := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeReady); ready == nil || ready.Status != druidv1alpha1.ConditionTrue {
		return &opstask.Problem{Code: druidv1alpha1.ErrorCodeEtcdNotReady, Message: "Waiting for the condition Ready of the Etcd to be True"}, nil
	}

	return nil, nil
}

// preconditionForJob returns the reason for which the compaction controller cannot create a Job. That controller does not write
// the status of the task.
func (r *Reconciler) preconditionForJob(ctx context.Context, etcd *druidv1alpha1.Etcd) (*opstask.Problem, error) {
	waiting := func(what string) *opstask.Problem {
		return &opstask.Problem{Code: druidv1alpha1.ErrorCodeEtcdNotReady, Message: "Waiting for " + what}
	}
	if helper.IsSuspended(etcd) {
		return waiting("the Etcd to be no longer suspended"), nil
	}
	recorded, err := r.recordedState(ctx, etcd)
	if err != nil {
		return nil, err
	}
	if recorded.Accepted == nil {
		return waiting("the Etcd to be rolled out by this operator, whose images a Job is run with; one that was taken over needs its next operation annotation"), nil
	}
	if evidence.IsRolledBack(etcd, etcdcluster.Observation{State: recorded}) {
		return waiting("the condition RevisionConfirmed of the Etcd to be True: the snapshots in the store may contain writes that the cluster has lost"), nil
	}
	if effective := evidence.Effective(etcd, etcdcluster.Observation{State: recorded}); effective != nil && effective.LostRevision > 0 {
		return waiting(fmt.Sprintf("a full snapshot with a higher revision than %d: the snapshots in the store may contain writes that the cluster has lost", effective.LostRevision)), nil
	}
	if resolved := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeStoreResolved); resolved != nil && resolved.Status == druidv1alpha1.ConditionFalse {
		return waiting("the store to be found: " + resolved.Message), nil
	}

	return nil, nil
}

// recordedState reads the record on the ManagedResource of the Etcd. Zero: there is no ManagedResource.
func (r *Reconciler) recordedState(ctx context.Context, etcd *druidv1alpha1.Etcd) (state.State, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); client.IgnoreNotFound(err) != nil {
		return state.State{}, fmt.Errorf("reading ManagedResource %s: %w", helper.ManagedResourceName(etcd), err)
	}
	recorded, err := state.Decode(mr.Annotations)
	if err != nil {
		return state.State{}, fmt.Errorf("ManagedResource %s: %w", mr.Name, err)
	}

	return recorded, nil
}

// readJob reads the state of the task's compaction Job. The compaction controller creates and retries the Job.
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
	obs.Precondition = nil // the Job was created and ended
	if recorded == druidv1alpha1.PodSuccessReasonNone {
		// A call outside the workers reads the new snapshot.
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
