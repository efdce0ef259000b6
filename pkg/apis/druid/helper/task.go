// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"slices"

	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// TaskKinds are all kinds of tasks.
func TaskKinds() []string {
	return append(RunTaskKinds(), druidv1alpha1.TaskBackupInspection)
}

// RunTaskKinds are the kinds of tasks that the annotation druid.gardener.cloud/run-task can request.
func RunTaskKinds() []string {
	return []string{
		druidv1alpha1.RunTaskFullSnapshot,
		druidv1alpha1.RunTaskDeltaSnapshot,
		druidv1alpha1.RunTaskCompaction,
		druidv1alpha1.RunTaskDefragmentation,
		druidv1alpha1.RunTaskRestoreDrill,
	}
}

// TaskKind is the kind of the task, one of TaskKinds: the kind that the operator recorded, otherwise that of its config.
// Empty: the kind is unknown to this version.
func TaskKind(task *druidv1alpha1.EtcdOpsTask) string {
	if kind := task.Annotations[druidv1alpha1.TaskKindAnnotation]; slices.Contains(TaskKinds(), kind) {
		return kind
	}
	config := task.Spec.Config
	switch {
	case config.OnDemandSnapshot != nil && config.OnDemandSnapshot.Type == druidv1alpha1.OnDemandSnapshotTypeFull:
		return druidv1alpha1.RunTaskFullSnapshot
	case config.OnDemandSnapshot != nil && config.OnDemandSnapshot.Type == druidv1alpha1.OnDemandSnapshotTypeDelta:
		return druidv1alpha1.RunTaskDeltaSnapshot
	case config.Compaction != nil:
		return druidv1alpha1.RunTaskCompaction
	case config.Defragmentation != nil:
		return druidv1alpha1.RunTaskDefragmentation
	case config.RestoreDrill != nil:
		return druidv1alpha1.RunTaskRestoreDrill
	case config.BackupInspection != nil:
		return druidv1alpha1.TaskBackupInspection
	default:
		return ""
	}
}

// IsTaskFinished is true if the task has ended.
func IsTaskFinished(task *druidv1alpha1.EtcdOpsTask) bool {
	switch ptr.Deref(task.Status.State, "") {
	case druidv1alpha1.TaskStateSucceeded, druidv1alpha1.TaskStateFailed, druidv1alpha1.TaskStateRejected:
		return true
	default:
		return false
	}
}

// IsCopyCompleted is true if the newest generation of the task succeeded or failed.
func IsCopyCompleted(task *druidv1alpha1.EtcdCopyBackupsTask) bool {
	return hasCopyCondition(task, druidv1alpha1.EtcdCopyBackupsTaskSucceeded, druidv1alpha1.ConditionTrue) ||
		hasCopyCondition(task, druidv1alpha1.EtcdCopyBackupsTaskFailed, druidv1alpha1.ConditionTrue)
}

// IsCopying is true for a task that copies or will copy: its newest generation has neither ended nor been rejected.
func IsCopying(task *druidv1alpha1.EtcdCopyBackupsTask) bool {
	return !IsCopyCompleted(task) && !hasCopyCondition(task, druidv1alpha1.EtcdCopyBackupsTaskProgressing, druidv1alpha1.ConditionFalse)
}

// hasCopyCondition is true if the newest generation of the task has a condition with the status.
func hasCopyCondition(task *druidv1alpha1.EtcdCopyBackupsTask, conditionType druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus) bool {
	if observed := task.Status.ObservedGeneration; observed == nil || *observed != task.Generation {
		return false
	}

	return slices.ContainsFunc(task.Status.Conditions, func(condition druidv1alpha1.Condition) bool {
		return condition.Type == conditionType && condition.Status == status
	})
}
