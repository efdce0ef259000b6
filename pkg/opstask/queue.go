// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// maxAttempts is the largest number of attempts of a task other than a compaction.
const maxAttempts = 3

// taskSlack is the time that a task may take in addition to its attempts: until the Etcd is ready, and for pauses.
const taskSlack = 10 * time.Minute

// WaitsForTask returns the name of the task of the same Etcd that runs before this one. all are the tasks of the namespace. A
// task in progress runs first, then the oldest one. The name orders tasks that were created in the same second. The Job of a
// restore drill can run for hours, and uses no member. Only another drill waits for it. Inspections of the backup store wait only for each other. Empty:
// this task is the first in the queue.
func WaitsForTask(task *druidv1alpha1.EtcdOpsTask, all []druidv1alpha1.EtcdOpsTask) string {
	var queue []*druidv1alpha1.EtcdOpsTask
	for i := range all {
		other := &all[i]
		if helper.TaskKind(task) != druidv1alpha1.RunTaskRestoreDrill && runsDrillJob(other) {
			continue
		}
		if isInspection(task) != isInspection(other) {
			continue
		}
		if ptr.Deref(other.Spec.EtcdName, "") == ptr.Deref(task.Spec.EtcdName, "") && !helper.IsTaskFinished(other) && (other.DeletionTimestamp == nil || isInProgress(other)) {
			queue = append(queue, other)
		}
	}
	slices.SortFunc(queue, func(a, b *druidv1alpha1.EtcdOpsTask) int {
		if isInProgress(a) != isInProgress(b) {
			if isInProgress(a) {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if len(queue) == 0 || queue[0].Name == task.Name {
		return ""
	}

	return queue[0].Name
}

func isInProgress(task *druidv1alpha1.EtcdOpsTask) bool {
	return ptr.Deref(task.Status.State, "") == druidv1alpha1.TaskStateInProgress
}

// AttemptMessage describes a running attempt in the last operation of a task.
func AttemptMessage(attempt, attempts int) string {
	return fmt.Sprintf("Attempt %d of %d", attempt, attempts)
}

// JobMessage describes a running attempt of a restore drill whose Job was created.
func JobMessage(attempt, attempts int) string {
	return AttemptMessage(attempt, attempts) + ": the Job runs"
}

// IsAttempting is true while an attempt of a task other than a compaction is running. A task in progress that waits has another message.
func IsAttempting(task *druidv1alpha1.EtcdOpsTask) bool {
	return isDescribedAs(task, AttemptMessage(len(task.Status.LastErrors)+1, maxAttempts)) || runsDrillJob(task)
}

// runsDrillJob is true while the Job of a restore drill is running.
func runsDrillJob(task *druidv1alpha1.EtcdOpsTask) bool {
	return helper.TaskKind(task) == druidv1alpha1.RunTaskRestoreDrill && isDescribedAs(task, JobMessage(len(task.Status.LastErrors)+1, maxAttempts))
}

func isDescribedAs(task *druidv1alpha1.EtcdOpsTask, description string) bool {
	return isInProgress(task) && task.Status.LastOperation != nil && task.Status.LastOperation.Description == description
}

// RefusalOf returns the reason for which the task can never run on the Etcd. Nil: there is none. etcd is the stored object, or
// nil if it does not exist.
func RefusalOf(task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd) *Problem {
	kind, name := helper.TaskKind(task), ptr.Deref(task.Spec.EtcdName, "")
	if errs := validation.ValidateOpsTask(task); len(errs) > 0 && !isInProgress(task) {
		return &Problem{druidv1alpha1.ErrorCodeInvalidSpec, errs.ToAggregate().Error()}
	}
	switch {
	case kind == "":
		return &Problem{druidv1alpha1.ErrorCodeInvalidSpec, "spec.config contains no task that this version of the operator supports"}
	case name == "":
		return &Problem{druidv1alpha1.ErrorCodeGetEtcd, "spec.etcdName names no Etcd: delete the task and create it with the name"}
	case etcd == nil:
		return &Problem{druidv1alpha1.ErrorCodeGetEtcd, fmt.Sprintf("spec.etcdName: there is no Etcd %s in the namespace", name)}
	case etcd.DeletionTimestamp != nil:
		return &Problem{druidv1alpha1.ErrorCodeGetEtcd, fmt.Sprintf("spec.etcdName: Etcd %s is being deleted", name)}
	}
	canonical, errs := helper.Canonical(etcd)
	if len(errs) > 0 {
		return &Problem{druidv1alpha1.ErrorCodeInvalidSpec, fmt.Sprintf("the spec of Etcd %s contradicts itself: %s", name, errs.ToAggregate())}
	}
	switch {
	case kind != druidv1alpha1.RunTaskDefragmentation && !helper.IsStoreConfigured(canonical):
		return &Problem{druidv1alpha1.ErrorCodeBackupNotEnabled, fmt.Sprintf("Etcd %s has no spec.backup.store", name)}
	case kind == druidv1alpha1.RunTaskCompaction:
		if metav1.HasAnnotation(canonical.ObjectMeta, druidv1alpha1.DisableEtcdRuntimeComponentCreationAnnotation) {
			return &Problem{druidv1alpha1.ErrorCodeBackupNotEnabled, fmt.Sprintf("Etcd %s has no Leases of snapshots, since its annotation %s switches them off", name, druidv1alpha1.DisableEtcdRuntimeComponentCreationAnnotation)}
		}

		return nil
	case kind == druidv1alpha1.TaskBackupInspection:
		_, invalid := InspectionOf(task)

		return invalid
	case helper.IsHibernated(canonical):
		return &Problem{druidv1alpha1.ErrorCodeEtcdNotReady, fmt.Sprintf("Etcd %s hibernates", name)}
	case !helper.ManagesPods(canonical):
		return &Problem{druidv1alpha1.ErrorCodeEtcdNotReady, fmt.Sprintf("the members of Etcd %s are managed externally, and so are their sidecars", name)}
	default:
		return nil
	}
}

// SnapshotMember returns the member whose sidecar takes the snapshot: the leader, or any healthy member without a leader. Nil:
// no member is healthy. A member that was removed from etcd takes none.
func SnapshotMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *etcdcluster.Member {
	var found *etcdcluster.Member
	members := etcdcluster.VotingMembers(etcd, o)
	for i := range members {
		member := &members[i]
		isRemoved := len(o.Etcd.MemberList) > 0 && member.Listed == nil
		if member.Pod == nil || member.Pod.Deleting || !member.IsHealthy() || isRemoved {
			continue
		}
		if found == nil || member.Role() == druidv1alpha1.EtcdRoleLeader {
			found = member
		}
	}

	return found
}

// AttemptTimeout returns the longest time of one attempt. jobDeadline is the deadline of the Job of a compaction or a restore drill.
func AttemptTimeout(task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd, jobDeadline time.Duration) time.Duration {
	config := ptr.Deref(task.Spec.Config.OnDemandSnapshot, druidv1alpha1.OnDemandSnapshotConfig{})
	switch helper.TaskKind(task) {
	case druidv1alpha1.RunTaskFullSnapshot:
		return time.Duration(ptr.Deref(config.TimeoutSecondsFull, 900)) * time.Second
	case druidv1alpha1.RunTaskDeltaSnapshot:
		return time.Duration(ptr.Deref(config.TimeoutSecondsDelta, 60)) * time.Second
	case druidv1alpha1.RunTaskCompaction:
		return compaction.MaxAttempts*jobDeadline + taskSlack
	case druidv1alpha1.RunTaskRestoreDrill:
		return jobDeadline + taskSlack
	case druidv1alpha1.TaskBackupInspection:
		config, _ := InspectionOf(task)

		return jobDeadline + InspectionTimeLimit(config) + taskSlack
	default:
		return time.Duration(max(etcd.Spec.Replicas, 1))*helper.DefragmentationTimeout(etcd) + time.Minute
	}
}

// LimitsFor returns the limits of the task. A compaction has one attempt, because the compaction controller retries its Job.
func LimitsFor(task *druidv1alpha1.EtcdOpsTask, etcd *druidv1alpha1.Etcd, jobDeadline time.Duration) Limits {
	attempts := maxAttempts
	if helper.TaskKind(task) == druidv1alpha1.RunTaskCompaction {
		attempts = 1
	}

	return Limits{Attempts: attempts, Deadline: time.Duration(attempts)*AttemptTimeout(task, etcd, jobDeadline) + taskSlack}
}

// FullSnapshotRequestedAt returns the creation time of the latest EtcdOpsTask that takes a full snapshot of the Etcd. Zero:
// there is none.
func FullSnapshotRequestedAt(etcd *druidv1alpha1.Etcd, tasks []druidv1alpha1.EtcdOpsTask) time.Time {
	var newest time.Time
	for i := range tasks {
		task := &tasks[i]
		if ptr.Deref(task.Spec.EtcdName, "") == etcd.Name && helper.TaskKind(task) == druidv1alpha1.RunTaskFullSnapshot && task.CreationTimestamp.After(newest) {
			newest = task.CreationTimestamp.Time
		}
	}

	return newest
}
