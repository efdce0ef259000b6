// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Limits of an inspection in seconds. They are those of the CustomResourceDefinition.
const (
	defaultInspectionSeconds = 900
	minInspectionSeconds     = 60
	maxInspectionSeconds     = 14400
)

// InspectionOf returns what a task of the kind backup-inspection inspects, or why it is invalid. The annotation takes precedence over the spec.
func InspectionOf(task *druidv1alpha1.EtcdOpsTask) (druidv1alpha1.BackupInspectionConfig, *Problem) {
	config, source := ptr.Deref(task.Spec.Config.BackupInspection, druidv1alpha1.BackupInspectionConfig{}), "spec.config.backupInspection"
	invalid := func(field, format string, args ...any) (druidv1alpha1.BackupInspectionConfig, *Problem) {
		return config, &Problem{druidv1alpha1.ErrorCodeInvalidSpec, source + field + ": " + fmt.Sprintf(format, args...)}
	}
	if text, annotated := task.Annotations[druidv1alpha1.TaskBackupInspectionAnnotation]; annotated {
		source = "annotation " + druidv1alpha1.TaskBackupInspectionAnnotation
		config = druidv1alpha1.BackupInspectionConfig{}
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			return invalid("", "%v", err)
		}
	} else if task.Spec.Config.BackupInspection == nil {
		return invalid("", "the field is missing: create the task with kubectl etcd inspect")
	}
	for name, point := range map[string]*druidv1alpha1.BackupPoint{".point": &config.Point, ".compareWith": config.CompareWith} {
		switch {
		case point == nil:
		case point.Revision != nil && point.Time != nil:
			return invalid(name, "both a revision and a time are set: set one of them")
		case point.Revision != nil && *point.Revision < 1:
			return invalid(name+".revision", "it is %d: use a positive number", *point.Revision)
		case point.Time != nil && point.Time.After(task.CreationTimestamp.Time):
			return invalid(name+".time", "%s is later than the creation of the task: use a time in the past", point.Time.UTC().Format(time.RFC3339))
		}
	}
	if seconds := ptr.Deref(config.TimeLimitSeconds, defaultInspectionSeconds); seconds < minInspectionSeconds || seconds > maxInspectionSeconds {
		return invalid(".timeLimitSeconds", "it is %d: use a number from %d to %d", seconds, minInspectionSeconds, maxInspectionSeconds)
	}

	return config, nil
}

// InspectionTimeLimit returns how long the data of an inspection is readable.
func InspectionTimeLimit(config druidv1alpha1.BackupInspectionConfig) time.Duration {
	return time.Duration(ptr.Deref(config.TimeLimitSeconds, defaultInspectionSeconds)) * time.Second
}

// DescribePoint names a point of the backup store.
func DescribePoint(point druidv1alpha1.BackupPoint) string {
	switch {
	case point.Revision != nil:
		return fmt.Sprintf("revision %d", *point.Revision)
	case point.Time != nil:
		return point.Time.UTC().Format(time.RFC3339)
	default:
		return "the newest revision"
	}
}

// InspectionJob is the observed state of the Job of an inspection.
type InspectionJob struct {
	// UID of the Job.
	UID types.UID
	// IsReadable is true while the data can be read.
	IsReadable bool
	// Ended is true if the Job has ended. Problem is the reason of its failure. Nil: the time limit has ended.
	Ended   bool
	Problem *Problem
}

// InspectionJobFor returns the state of the Job. The pods of a Job that has ended have to be as new as the Job. Pods of other owners are ignored.
func InspectionJobFor(job *batchv1.Job, pods []corev1.Pod) InspectionJob {
	observed := InspectionJob{UID: job.UID, IsReadable: ptr.Deref(job.Status.Ready, 0) > 0}
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			observed.Ended = true
		case batchv1.JobFailed:
			observed.Ended, observed.Problem = true, &Problem{druidv1alpha1.ErrorCodeBackupInspection, inspectionFailure(job, condition, pods)}
		}
	}

	return observed
}

// inspectionFailure returns why the Job has failed. The newest pod counts. The message of etcd-helper lists the available points, and is not shortened.
func inspectionFailure(job *batchv1.Job, condition batchv1.JobCondition, pods []corev1.Pod) string {
	if condition.Reason == batchv1.JobReasonDeadlineExceeded {
		return "The Job took longer than its deadline"
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return etcdcluster.OwnerUID(pod) != job.UID })
	if len(pods) == 0 {
		return "The pod of the Job was deleted; " + condition.Message
	}
	pod := slices.MaxFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		terminated := container.State.Terminated
		switch {
		case terminated == nil || terminated.ExitCode == 0:
		case container.Name == etcdcluster.ReplayContainer || container.Name == etcdcluster.ReplayComparedContainer:
			return strings.Join(strings.Fields(terminated.Message), " ")
		default:
			return fmt.Sprintf("Container %s of pod %s ended with code %d: %s", container.Name, pod.Name, terminated.ExitCode, etcdcluster.Excerpt(terminated.Message))
		}
	}

	return fmt.Sprintf("Pod %s reports no reason; %s", pod.Name, condition.Message)
}

// ReadableMessage describes a running attempt of an inspection whose data can be read.
func ReadableMessage(attempt, attempts int) string {
	return AttemptMessage(attempt, attempts) + ": the data can be read"
}

// HasInspectionJob is true if the operator has observed the Job of the current attempt of an inspection.
func HasInspectionJob(task *druidv1alpha1.EtcdOpsTask) bool {
	attempt := len(task.Status.LastErrors) + 1

	return IsReadable(task) || isInspection(task) && isDescribedAs(task, JobMessage(attempt, maxAttempts))
}

// IsReadable is true while the data of an inspection can be read.
func IsReadable(task *druidv1alpha1.EtcdOpsTask) bool {
	return isInspection(task) && isDescribedAs(task, ReadableMessage(len(task.Status.LastErrors)+1, maxAttempts))
}

func isInspection(task *druidv1alpha1.EtcdOpsTask) bool {
	return helper.TaskKind(task) == druidv1alpha1.TaskBackupInspection
}
