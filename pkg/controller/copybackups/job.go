// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"context"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
)

// reconcileJob creates the Job if it does not exist, and returns the conditions for its status. It does not resolve the stores
// while a Job exists.
func (r *Reconciler) reconcileJob(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) ([]druidv1alpha1.Condition, error) {
	job, err := r.job(ctx, task)
	if err != nil {
		return nil, err
	}
	if job != nil && !isOfTask(job, task) {
		return nil, foreignJobError(job)
	}
	if job != nil && !isForGeneration(job, task) {
		if _, err := r.deleteJob(ctx, task); err != nil {
			return nil, err
		}
		return nil, &waitingError{fmt.Sprintf("Waiting for the deletion of Job %s of an earlier task or generation", job.Name)}
	}
	if job == nil {
		if job, err = r.create(ctx, task); err != nil {
			return nil, err
		}
	}

	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(task.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}); err != nil {
		return nil, fmt.Errorf("listing the pods of Job %s: %w", job.Name, err)
	}
	return copybackups.Conditions(copybackups.Observation{Task: task, Job: job, Pods: pods.Items}), nil
}

// job returns the Job with the name that belongs to the task. Nil: there is none.
func (r *Reconciler) job(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: copybackups.JobName(task)}, job); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading Job %s: %w", copybackups.JobName(task), err)
	}
	return job, nil
}

// isForGeneration is true for the Job of this task in this generation. etcd-druid created a Job without a generation for this
// task. The operator does not repeat that copy.
func isForGeneration(job *batchv1.Job, task *druidv1alpha1.EtcdCopyBackupsTask) bool {
	generation, found := job.Annotations[copybackups.AnnotationGeneration]
	return job.DeletionTimestamp == nil && metav1.IsControlledBy(job, task) && (!found || generation == strconv.FormatInt(task.Generation, 10))
}

// isOfTask is true for a Job of the task or of a previous task of the same name.
func isOfTask(job *batchv1.Job, task *druidv1alpha1.EtcdCopyBackupsTask) bool {
	owner := metav1.GetControllerOf(job)
	return owner != nil && owner.Kind == "EtcdCopyBackupsTask" && owner.APIVersion == druidv1alpha1.SchemeGroupVersion.String() && owner.Name == task.Name
}

// foreignJobError returns the terminal error for a Job that does not belong to the task.
func foreignJobError(job *batchv1.Job) error {
	return terminal("metadata.name: Job %s in namespace %s exists and does not belong to this task: delete it if nothing needs it, or create the task with another name", job.Name, job.Namespace)
}

// create resolves the stores and creates the Job. It ends within startTimeout after the target is reserved.
func (r *Reconciler) create(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) (*batchv1.Job, error) {
	if errs := append(validation.ValidateCopyBackupsTask(task), r.Restrictions.ValidateCopyBackupsTask(task)...); len(errs) > 0 {
		return nil, terminal("%s", errs.ToAggregate())
	}
	values, err := r.values(ctx, task)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := r.reserveTarget(ctx, task, values.Target); err != nil {
		return nil, err
	}
	job := copybackups.Job(values)
	switch err := r.Client.Create(ctx, job); {
	case apierrors.IsAlreadyExists(err):
		// The cache is stale, or the Job does not have the labels of this operator and is therefore not in the cache.
		return nil, r.explainExisting(ctx, task, job.Name)
	case apierrors.IsInvalid(err):
		return nil, terminal("metadata.name: Job %s is refused: %s", job.Name, err)
	case err != nil:
		return nil, fmt.Errorf("creating Job %s: %w", job.Name, err)
	}
	r.Recorder.Eventf(task, job, corev1.EventTypeNormal, "Copying", "Copy", "Job %s copies the snapshots", job.Name)
	return job, nil
}

// explainExisting returns the reason for which the existing Job of that name prevents the copy. The error is never nil.
func (r *Reconciler) explainExisting(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask, name string) error {
	job := &batchv1.Job{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: name}, job)
	if apierrors.IsNotFound(err) {
		return &waitingError{fmt.Sprintf("Waiting for the creation of Job %s: another one of the same name was just deleted", name)}
	}
	if err != nil {
		return fmt.Errorf("reading Job %s: %w", name, err)
	}
	if !isOfTask(job, task) {
		return foreignJobError(job)
	}
	return &waitingError{fmt.Sprintf("Waiting for Job %s to be seen", name)}
}

// deleteJob deletes the Job of a task and of previous tasks of the same name. It returns whether the Job and its pods are
// deleted.
func (r *Reconciler) deleteJob(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) (bool, error) {
	job, err := r.job(ctx, task)
	if err != nil {
		return false, err
	}
	if job != nil {
		if !isOfTask(job, task) {
			return true, nil
		}
		if job.DeletionTimestamp == nil {
			err := r.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &job.UID})
			if client.IgnoreNotFound(err) != nil {
				return false, fmt.Errorf("deleting Job %s: %w", job.Name, err)
			}
		}
		return false, nil
	}

	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(task.Namespace), client.MatchingLabels(copybackups.Labels(task))); err != nil {
		return false, fmt.Errorf("listing the pods of the Job: %w", err)
	}
	return len(pods.Items) == 0, nil
}
