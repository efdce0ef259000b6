// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	componentcompaction "github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// inspectionTimeout is how long an inspection may take until its Job exists.
const inspectionTimeout = 5 * time.Minute

// readInspection reads the state of the Job of an inspection.
func (r *Reconciler) readInspection(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, obs *observation) error {
	if obs.etcd == nil {
		return nil
	}
	job, err := r.inspectionJob(ctx, r.Client, task)
	if err != nil {
		return err
	}
	if job == nil {
		if r.readCall(task, obs); obs.Call.Running || obs.Call.Problem != nil || !obs.Call.Ended && !opstask.HasInspectionJob(task) {
			return nil
		}
		if job, err = r.inspectionJob(ctx, r.Reader, task); err != nil {
			return err
		}
	}
	if job == nil {
		obs.Call = opstask.Call{Ended: true, Final: true, Problem: inspectionProblem("The Job of the inspection was deleted before its time limit")}

		return nil
	}
	pods := &corev1.PodList{}
	if isJobEnded(job) {
		selector := client.MatchingLabels{druidv1alpha1.LabelPartOfKey: obs.etcd.Name, druidv1alpha1.LabelComponentKey: druidv1alpha1.ComponentNameBackupInspectionJob}
		if err := r.Reader.List(ctx, pods, client.InNamespace(task.Namespace), selector); err != nil {
			return fmt.Errorf("listing the pods of Job %s: %w", job.Name, err)
		}
	}
	observed := opstask.InspectionJobFor(job, pods.Items)
	switch {
	case observed.Ended:
		obs.Call = opstask.Call{Ended: true, Final: true, Problem: observed.Problem}
		obs.outcome = Outcome{Problem: observed.Problem, Message: "The time limit of the inspection has ended"}
	case observed.IsReadable:
		obs.Call = opstask.Call{Running: true, Message: opstask.ReadableMessage(obs.FailedAttempts+1, obs.Limits.Attempts)}
	default:
		obs.Call = opstask.Call{Running: true, Message: opstask.JobMessage(obs.FailedAttempts+1, obs.Limits.Attempts)}
	}

	return nil
}

func inspectionProblem(message string) *opstask.Problem {
	return &opstask.Problem{Code: druidv1alpha1.ErrorCodeBackupInspection, Message: message}
}

func isJobEnded(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			return true
		}
	}

	return false
}

// inspectionJob reads the Job of the task. Nil: there is none.
func (r *Reconciler) inspectionJob(ctx context.Context, reader client.Reader, task *druidv1alpha1.EtcdOpsTask) (*batchv1.Job, error) {
	job, name := &batchv1.Job{}, inspectionJobName(task)
	if err := reader.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: name}, job); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}

		return nil, fmt.Errorf("reading Job %s: %w", name, err)
	}
	if job.Annotations[druidv1alpha1.CompactionTaskAnnotation] != string(task.UID) || job.DeletionTimestamp != nil {
		return nil, nil
	}

	return job, nil
}

func inspectionJobName(task *druidv1alpha1.EtcdOpsTask) string {
	return helper.BackupInspectionJobName(&druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: ptr.Deref(task.Spec.EtcdName, "")}})
}

// endInspection deletes the Job of a task that is deleted, so that its data is no longer readable.
func (r *Reconciler) endInspection(ctx context.Context, task *druidv1alpha1.EtcdOpsTask) error {
	if helper.TaskKind(task) != druidv1alpha1.TaskBackupInspection {
		return nil
	}
	job, err := r.inspectionJob(ctx, r.Reader, task)
	if err != nil || job == nil {
		return err
	}
	err = r.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Job %s: %w", job.Name, err)
	}

	return nil
}

// startInspection creates the Job of an inspection. It reports that on the Etcd first, because the data includes Secrets.
func (r *Reconciler) startInspection(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd) Outcome {
	ctx, cancel := context.WithTimeout(ctx, inspectionTimeout)
	defer cancel()
	config, invalid := opstask.InspectionOf(task)
	if invalid != nil {
		return Outcome{Problem: invalid}
	}
	values, err := r.drillValues(ctx, etcd)
	if err != nil {
		return problem(druidv1alpha1.ErrorCodeBackupInspection, err)
	}
	inspection, err := r.inspectionFor(ctx, etcd, config)
	if err != nil {
		return problem(druidv1alpha1.ErrorCodeBackupInspection, err)
	}
	job := componentcompaction.BackupInspectionJob(values, inspection)
	job.Annotations[druidv1alpha1.CompactionTaskAnnotation] = string(task.UID)
	job.Annotations[druidv1alpha1.CompactionAttemptAnnotation] = strconv.Itoa(len(task.Status.LastErrors) + 1)
	points := opstask.DescribePoint(config.Point)
	if config.CompareWith != nil {
		points += " and at " + opstask.DescribePoint(*config.CompareWith)
	}
	r.Recorder.Eventf(etcd, task, corev1.EventTypeNormal, "InspectingBackup", "RunTask",
		"EtcdOpsTask %s makes the data of the backup store at %s readable for %s, including Secrets", task.Name, points, inspection.TimeLimit)
	if err := r.replaceJob(ctx, etcd, job); err != nil {
		return problem(druidv1alpha1.ErrorCodeBackupInspection, err)
	}

	return Outcome{}
}

// inspectionFor returns what the Job makes readable. The sidecar takes a delta snapshot if a point is the newest one. Otherwise, it only lists the newest
// snapshots: all snapshots are copied if it does not respond.
func (r *Reconciler) inspectionFor(ctx context.Context, etcd *druidv1alpha1.Etcd, config druidv1alpha1.BackupInspectionConfig) (componentcompaction.BackupInspection, error) {
	inspection := componentcompaction.BackupInspection{Point: pointFor(config.Point), TimeLimit: opstask.InspectionTimeLimit(config)}
	points := []componentcompaction.BackupPoint{inspection.Point}
	if config.CompareWith != nil {
		inspection.CompareWith = new(pointFor(*config.CompareWith))
		points = append(points, *inspection.CompareWith)
	}
	sidecarClient, err := r.anySidecar(ctx, etcd)
	if slices.Contains(points, componentcompaction.BackupPoint{}) {
		if err != nil {
			return inspection, err
		}
		if _, err := sidecarClient.DeltaSnapshot(ctx); err != nil {
			return inspection, fmt.Errorf("taking a delta snapshot of the current data: %w", err)
		}
	}
	if err != nil {
		return inspection, nil //nolint:nilerr // the snapshots can be read without a member
	}
	if latest, err := sidecarClient.LatestSnapshots(ctx); err == nil {
		inspection.Sets = setsFor(latest, points)
	}

	return inspection, nil
}

// anySidecar returns a client of the sidecar of a healthy member.
func (r *Reconciler) anySidecar(ctx context.Context, etcd *druidv1alpha1.Etcd) (sidecar.Client, error) {
	member := opstask.SnapshotMember(etcd, r.Observer.Observe(ctx, etcd, observer.Request{QueryEtcd: true}))
	if member == nil {
		return nil, errors.New("no member in a pod of the operator is healthy, so that no sidecar can take a snapshot of the current data: use a revision or a time")
	}

	return r.Observer.Sidecar(ctx, etcd, *member.Pod)
}

// setsFor returns the number of sets of snapshots that contain the points. 0: all.
func setsFor(latest sidecar.LatestSnapshots, points []componentcompaction.BackupPoint) int {
	full := latest.Full
	if full == nil {
		return 0
	}
	for _, point := range points {
		isOlder := point.Revision > 0 && point.Revision < full.LastRevision || !point.Time.IsZero() && point.Time.Before(full.CreatedAt)
		if isOlder {
			return 0
		}
	}

	return componentcompaction.NewestSets
}

func pointFor(point druidv1alpha1.BackupPoint) componentcompaction.BackupPoint {
	converted := componentcompaction.BackupPoint{Revision: ptr.Deref(point.Revision, 0)}
	if point.Time != nil {
		converted.Time = point.Time.Time
	}

	return converted
}
