// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"context"
	"fmt"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// observation is the input of the decision and the objects that it was read from.
type observation struct {
	compaction.Input
	// job is the Job. Nil: there is none.
	job *batchv1.Job
	// snapshot is the latest task that takes a full snapshot instead of a Job. Nil: there is none.
	snapshot *druidv1alpha1.EtcdOpsTask
}

// observe reads the input of the decision from the caches. It reads from the API server what a cache may not show yet about a Job that has
// ended.
func (r *Reconciler) observe(ctx context.Context, etcd *druidv1alpha1.Etcd) (observation, error) {
	obs := observation{Input: compaction.Input{
		HasStore:   helper.IsStoreConfigured(etcd) && !metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.DisableEtcdRuntimeComponentCreationAnnotation),
		Suspended:  helper.IsSuspended(etcd),
		Hibernated: helper.IsHibernated(etcd),
	}}
	r.setThresholds(&obs.Input, etcd)
	var err error
	if obs.FullSnapshotLease, err = lease(ctx, r.Client, etcd, helper.FullSnapshotLeaseName(etcd)); err != nil {
		return observation{}, err
	}
	if obs.DeltaSnapshotLease, err = lease(ctx, r.Client, etcd, helper.DeltaSnapshotLeaseName(etcd)); err != nil {
		return observation{}, err
	}
	if err := readRecord(ctx, r.Client, etcd, &obs); err != nil {
		return observation{}, err
	}
	if err := r.readJob(ctx, etcd, &obs); err != nil {
		return observation{}, err
	}
	if err := r.checkResult(ctx, etcd, &obs); err != nil {
		return observation{}, err
	}

	return obs, r.readTasks(ctx, etcd, &obs)
}

// readRecord reads from the ManagedResource which store is in use, and whether the cluster has lost acknowledged writes.
func readRecord(ctx context.Context, reader client.Reader, etcd *druidv1alpha1.Etcd, obs *observation) error {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ManagedResource %s: %w", helper.ManagedResourceName(etcd), err)
	}
	recorded, err := state.Decode(mr.Annotations)
	if err != nil {
		return fmt.Errorf("ManagedResource %s: %w", mr.Name, err)
	}
	obs.StoreLocation, obs.AwaitsSnapshot = "", false
	if recorded.Store != nil {
		obs.StoreLocation, obs.AwaitsSnapshot = recorded.Store.String(), recorded.Store.AwaitsSnapshot()
	}
	current := etcdcluster.Observation{State: recorded}
	obs.RolledBack, obs.LostRevision = evidence.IsRolledBack(etcd, current), 0
	if effective := evidence.Effective(etcd, current); effective != nil {
		obs.LostRevision = effective.LostRevision
	}

	return nil
}

// checkResult marks a completed Job as failed if it left no new full snapshot. It reads the Lease from the API server, because
// the cache may be stale.
func (r *Reconciler) checkResult(ctx context.Context, etcd *druidv1alpha1.Etcd, obs *observation) error {
	if !obs.HasNoResult() {
		return nil
	}
	var err error
	if obs.FullSnapshotLease, err = lease(ctx, r.Reader, etcd, helper.FullSnapshotLeaseName(etcd)); err != nil {
		return err
	}
	if obs.HasNoResult() {
		obs.MarkFailedWithoutResult()
	}

	return nil
}

// setThresholds sets the thresholds of the Etcd, and those of the operator by default. They stay 0 if the operator's
// configuration disables compaction.
func (r *Reconciler) setThresholds(c *compaction.Input, etcd *druidv1alpha1.Etcd) {
	if r.Config.EventsThreshold <= 0 {
		return
	}
	spec := ptr.Deref(etcd.Spec.Backup.SnapshotCompaction, druidv1alpha1.SnapshotCompactionSpec{})
	c.EventsThreshold = ptr.Deref(spec.EventsThreshold, r.Config.EventsThreshold)
	c.FullSnapshotThreshold = ptr.Deref(spec.TriggerFullSnapshotThreshold, r.Config.FullSnapshotThreshold)
}

// lease reads a snapshot Lease. The zero value means that it does not exist.
func lease(ctx context.Context, reader client.Reader, etcd *druidv1alpha1.Etcd, name string) (etcdcluster.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: name}, lease); err != nil {
		if apierrors.IsNotFound(err) {
			return etcdcluster.Lease{}, nil
		}

		return etcdcluster.Lease{}, fmt.Errorf("reading Lease %s: %w", name, err)
	}

	return etcdcluster.LeaseFor(lease), nil
}

// readJob reads the Job and its pods.
func (r *Reconciler) readJob(ctx context.Context, etcd *druidv1alpha1.Etcd, obs *observation) error {
	job := &batchv1.Job{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.CompactionJobName(etcd)}, job); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}

		return fmt.Errorf("reading Job %s: %w", helper.CompactionJobName(etcd), err)
	}
	if !metav1.IsControlledBy(job, etcd) {
		return foreignJob(etcd, job.Name)
	}
	pods, err := podsOf(ctx, r.Client, etcd, job)
	if err != nil {
		return err
	}
	obs.job, obs.Job = job, new(compaction.JobFor(job, pods))
	if !obs.Job.HasUnknownFailure() {
		return nil
	}
	// The caches of Jobs and pods are not ordered: the cache may not show yet how the pod ended. The outcome is recorded only once.
	if pods, err = podsOf(ctx, r.Reader, etcd, job); err != nil {
		return err
	}
	obs.Job = new(compaction.JobFor(job, pods))

	return nil
}

// podsOf lists the pods of the Etcd's compaction Jobs.
func podsOf(ctx context.Context, reader client.Reader, etcd *druidv1alpha1.Etcd, job *batchv1.Job) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	labels := helper.DefaultLabels(etcd)
	labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameSnapshotCompactionJob
	if err := reader.List(ctx, pods, client.InNamespace(etcd.Namespace), client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("listing the pods of Job %s: %w", job.Name, err)
	}

	return pods.Items, nil
}

// readTasks finds the task in progress that requests a Job, and the latest task that takes a full snapshot instead of a Job.
func (r *Reconciler) readTasks(ctx context.Context, etcd *druidv1alpha1.Etcd, obs *observation) error {
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := r.Client.List(ctx, tasks, client.InNamespace(etcd.Namespace)); err != nil {
		return fmt.Errorf("listing EtcdOpsTasks: %w", err)
	}
	for i := range tasks.Items {
		task := &tasks.Items[i]
		if ptr.Deref(task.Spec.EtcdName, "") != etcd.Name || task.DeletionTimestamp != nil {
			continue
		}
		if helper.TaskKind(task) == druidv1alpha1.RunTaskCompaction && ptr.Deref(task.Status.State, "") == druidv1alpha1.TaskStateInProgress {
			obs.Task = task.UID
		}
		isInstead := metav1.HasAnnotation(task.ObjectMeta, druidv1alpha1.CompactionBaseAnnotation) && metav1.IsControlledBy(task, etcd)
		if isInstead && (obs.snapshot == nil || obs.snapshot.CreationTimestamp.Before(&task.CreationTimestamp)) {
			obs.snapshot = task
		}
	}
	if obs.snapshot != nil {
		obs.Snapshot = new(snapshotFor(obs.snapshot))
	}

	return nil
}

func snapshotFor(task *druidv1alpha1.EtcdOpsTask) compaction.Snapshot {
	snapshot := compaction.Snapshot{
		BaseRevision: task.Annotations[druidv1alpha1.CompactionBaseAnnotation],
		Ended:        helper.IsTaskFinished(task),
		Taken:        ptr.Deref(task.Status.State, "") == druidv1alpha1.TaskStateSucceeded,
		Recorded:     task.Annotations[druidv1alpha1.CompactionRecordedAnnotation] != "",
		Message:      "EtcdOpsTask " + task.Name + " has taken a full snapshot instead",
	}
	if !snapshot.Taken {
		var errs []string
		for _, err := range task.Status.LastErrors {
			errs = append(errs, err.Description)
		}
		snapshot.Message = "EtcdOpsTask " + task.Name + " has failed to take a full snapshot: " + strings.Join(errs, "; ")
	}

	return snapshot
}
