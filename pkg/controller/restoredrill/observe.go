// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package restoredrill

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/drill"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// observation is the input of the decision, and the objects that it was read from.
type observation struct {
	drill.Input
	// mr is the ManagedResource with the record. Nil: it does not exist.
	mr *resourcesv1alpha1.ManagedResource
	// job is the Job. Nil: there is none.
	job *batchv1.Job
}

// observe reads the input of the decision from the caches. It reads from the API server what a cache may not show yet about a Job that has ended.
func (r *Reconciler) observe(ctx context.Context, etcd *druidv1alpha1.Etcd) (observation, error) {
	obs := observation{Input: drill.Input{UID: etcd.UID, Limit: r.Config.Limit}}
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); err != nil {
		return obs, client.IgnoreNotFound(err)
	}
	recorded, err := state.Decode(mr.Annotations)
	if err != nil {
		return obs, fmt.Errorf("ManagedResource %s: %w", mr.Name, err)
	}
	obs.mr, obs.Record = mr, ptr.Deref(recorded.RestoreDrill, state.RestoreDrill{})
	if recorded.Store != nil {
		obs.Store = recorded.Store.String()
	}
	obs.Blocked, obs.WaitsFor = blockedBy(etcd, recorded), waitsFor(etcd, recorded)
	if helper.IsStoreConfigured(etcd) {
		obs.Period = r.periodOf(etcd)
	}
	if err := r.readJob(ctx, etcd, &obs); err != nil {
		return obs, err
	}

	return obs, r.readTasks(ctx, etcd, &obs)
}

// blockedBy returns why no drill can run. Empty: one can.
func blockedBy(etcd *druidv1alpha1.Etcd, recorded state.State) string {
	switch {
	case !helper.IsStoreConfigured(etcd):
		return "there is no store"
	case recorded.Accepted == nil || recorded.Store == nil:
		return "the Etcd is not rolled out"
	case helper.IsSuspended(etcd):
		return "the Etcd is suspended"
	case helper.IsHibernated(etcd):
		return "the cluster hibernates"
	case !helper.ManagesPods(etcd):
		return "the members are managed externally"
	case evidence.IsRolledBack(etcd, etcdcluster.Observation{State: recorded}):
		return "the cluster has lost acknowledged writes, and the snapshots in the store may contain them"
	default:
		return ""
	}
}

// waitsFor returns what the next task waits for. It is a precondition of the task, which would otherwise be in progress until that, or a precondition of
// its attempts, which would otherwise fail. Empty: nothing.
func waitsFor(etcd *druidv1alpha1.Etcd, recorded state.State) string {
	if effective := evidence.Effective(etcd, etcdcluster.Observation{State: recorded}); effective != nil && effective.LostRevision > 0 {
		return fmt.Sprintf("a full snapshot with a higher revision than %d", effective.LostRevision)
	}
	if resolved := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeStoreResolved); resolved != nil && resolved.Status == druidv1alpha1.ConditionFalse {
		return "the store to be found"
	}
	for _, needed := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTypeAllMembersReady} {
		if found := conditions.Find(etcd.Status.Conditions, needed); found == nil || found.Status != druidv1alpha1.ConditionTrue {
			return fmt.Sprintf("the condition %s to be True", needed)
		}
	}

	return ""
}

// minPeriod is the shortest period of an annotation. A drill needs the resources of a compaction.
const minPeriod = time.Hour

// periodOf returns the time between two drills. An annotation that cannot be read has no effect, and causes one event.
func (r *Reconciler) periodOf(etcd *druidv1alpha1.Etcd) time.Duration {
	text, requested := etcd.Annotations[druidv1alpha1.RestoreDrillPeriodAnnotation]
	if !requested {
		return r.Config.Period
	}
	period, err := time.ParseDuration(text)
	if err != nil || period < 0 || period > 0 && period < minPeriod {
		if reported, _ := r.reported.Swap(client.ObjectKeyFromObject(etcd), text); reported != text {
			r.event(etcd, corev1.EventTypeWarning, "InvalidPeriod", "The annotation %s=%q is ignored: set a duration of at least %s, such as 24h, or 0s for no drills", druidv1alpha1.RestoreDrillPeriodAnnotation, text, minPeriod)
		}

		return r.Config.Period
	}
	r.reported.Delete(client.ObjectKeyFromObject(etcd))

	return period
}

// readJob reads the Job, and its pods if it has ended.
func (r *Reconciler) readJob(ctx context.Context, etcd *druidv1alpha1.Etcd, obs *observation) error {
	job := &batchv1.Job{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.RestoreDrillJobName(etcd)}, job); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(job, etcd) {
		return nil // the task reports it
	}
	found := drill.JobFor(job, nil)
	if found.Result != nil && found.Recorded == "" {
		pods := &corev1.PodList{}
		labels := helper.DefaultLabels(etcd)
		labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameRestoreDrillJob
		if err := r.Reader.List(ctx, pods, client.InNamespace(etcd.Namespace), client.MatchingLabels(labels)); err != nil {
			return fmt.Errorf("listing the pods of Job %s: %w", job.Name, err)
		}
		found = drill.JobFor(job, pods.Items)
	}
	obs.job, obs.Job = job, &found

	return nil
}

// readTasks reads the tasks of the Etcd.
func (r *Reconciler) readTasks(ctx context.Context, etcd *druidv1alpha1.Etcd, obs *observation) error {
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := r.Client.List(ctx, tasks, client.InNamespace(etcd.Namespace)); err != nil {
		return fmt.Errorf("listing EtcdOpsTasks: %w", err)
	}
	snapshotCreated := time.Time{}
	for i := range tasks.Items {
		task := &tasks.Items[i]
		if !isOfDrill(task) || ptr.Deref(task.Spec.EtcdName, "") != etcd.Name || task.DeletionTimestamp != nil {
			continue
		}
		found := taskFor(task)
		switch {
		case helper.TaskKind(task) == druidv1alpha1.RunTaskRestoreDrill:
			obs.Tasks = append(obs.Tasks, found)
		case isRepair(obs.Record, found) && metav1.IsControlledBy(task, etcd) && !snapshotCreated.After(task.CreationTimestamp.Time):
			obs.Snapshot, snapshotCreated = &found, task.CreationTimestamp.Time
		}
	}

	return nil
}

// countRunning returns the number of scheduled drills of all Etcds that run, or were created lately. Tasks of users do not count, nor do tasks that
// wait: they would prevent the drills of all other Etcds.
func (r *Reconciler) countRunning(ctx context.Context) (int, error) {
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := r.Client.List(ctx, tasks); err != nil {
		return 0, fmt.Errorf("listing EtcdOpsTasks: %w", err)
	}
	running := r.created.running(r.Clock.Now())
	for i := range tasks.Items {
		task := &tasks.Items[i]
		key := client.ObjectKeyFromObject(task)
		if helper.IsTaskFinished(task) {
			delete(running, key)

			continue
		}
		if running[key] || task.Annotations[druidv1alpha1.DrillScheduledAnnotation] == "" || !opstask.IsAttempting(task) {
			continue
		}
		etcd := &druidv1alpha1.Etcd{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: ptr.Deref(task.Spec.EtcdName, "")}, etcd); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("reading the Etcd of EtcdOpsTask %s: %w", key, err)
		}
		if metav1.IsControlledBy(task, etcd) {
			running[key] = true
		}
	}

	return len(running), nil
}

// isRepair is true for the full snapshot after the fault of the record.
func isRepair(record state.RestoreDrill, task drill.Task) bool {
	return record.Repair != nil && task.Follows == record.Repair.Fault
}

func taskFor(task *druidv1alpha1.EtcdOpsTask) drill.Task {
	found := drill.Task{UID: task.UID, Follows: types.UID(task.Annotations[druidv1alpha1.DrillOfAnnotation])}
	if !helper.IsTaskFinished(task) {
		return found
	}
	found.EndedAt = task.CreationTimestamp.Time
	if at := task.Status.LastTransitionTime; at != nil {
		found.EndedAt = at.Time
	}
	if ended := ptr.Deref(task.Status.State, ""); ended != druidv1alpha1.TaskStateSucceeded {
		var errs []string
		for _, err := range task.Status.LastErrors {
			errs = append(errs, err.Description)
			found.MembersDiffer = err.Code == druidv1alpha1.ErrorCodeMembersDiffer // of the last attempt
		}
		found.Failure = cmp.Or(strings.Join(errs, "; "), fmt.Sprintf("EtcdOpsTask %s ended with the state %s", task.Name, ended))
	}

	return found
}
