// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Reasons of the conditions of a task.
const (
	// ReasonCopying means that the Job copies, or waits for the final snapshot.
	ReasonCopying = "Copying"
	// ReasonWaiting means that the Job cannot be created yet.
	ReasonWaiting = "Waiting"
	// ReasonInvalid means that the author of the task must act.
	ReasonInvalid = "InvalidSpec"
	// ReasonOver means that the Job has ended.
	ReasonOver = "Over"
)

// Observation is the observed state of a copy.
type Observation struct {
	// Task is the EtcdCopyBackupsTask.
	Task *druidv1alpha1.EtcdCopyBackupsTask
	// Job is the Job of the task.
	Job *batchv1.Job
	// Pods are the existing pods of the Job.
	Pods []corev1.Pod
}

// IsFinished is true if the Job has succeeded or failed.
func IsFinished(job *batchv1.Job) bool {
	return find(job, batchv1.JobComplete) != nil || find(job, batchv1.JobFailed) != nil
}

// Conditions returns the conditions of a copy: Succeeded or Failed after the end of the Job, and always Progressing. Messages
// contain points in time, never ages.
func Conditions(obs Observation) []druidv1alpha1.Condition {
	if complete := find(obs.Job, batchv1.JobComplete); complete != nil {
		return []druidv1alpha1.Condition{
			{Type: druidv1alpha1.EtcdCopyBackupsTaskSucceeded, Status: druidv1alpha1.ConditionTrue, Reason: reasonOf(complete, "JobComplete"), Message: "What the source held and the target lacked was copied; the log of the Job says what that was" + obs.waitTimedOut() + obs.afterFailures()},
			Progressing(druidv1alpha1.ConditionFalse, ReasonOver, "The copy has ended at "+utc(complete.LastTransitionTime.Time)),
		}
	}
	if failed := find(obs.Job, batchv1.JobFailed); failed != nil {
		return []druidv1alpha1.Condition{
			{Type: druidv1alpha1.EtcdCopyBackupsTaskFailed, Status: druidv1alpha1.ConditionTrue, Reason: reasonOf(failed, "JobFailed"), Message: failed.Message + obs.lastFailure() + ". Create another task to retry; snapshots that were copied are not copied again"},
			Progressing(druidv1alpha1.ConditionFalse, ReasonOver, "The copy has ended at "+utc(failed.LastTransitionTime.Time)),
		}
	}

	return []druidv1alpha1.Condition{Progressing(druidv1alpha1.ConditionTrue, ReasonCopying, obs.running()+obs.lastFailure())}
}

// IsRunning is true for a task whose status shows that the Job of its newest generation copies.
func IsRunning(task *druidv1alpha1.EtcdCopyBackupsTask) bool {
	if ptr.Deref(task.Status.ObservedGeneration, 0) != task.Generation {
		return false
	}

	return slices.ContainsFunc(task.Status.Conditions, func(condition druidv1alpha1.Condition) bool {
		return condition.Type == druidv1alpha1.EtcdCopyBackupsTaskProgressing && condition.Reason == ReasonCopying
	})
}

// Progressing returns the condition for the current action.
func Progressing(status druidv1alpha1.ConditionStatus, reason, message string) druidv1alpha1.Condition {
	return druidv1alpha1.Condition{Type: druidv1alpha1.EtcdCopyBackupsTaskProgressing, Status: status, Reason: reason, Message: message}
}

// running describes what the newest pod does.
func (s Observation) running() string {
	attempt := fmt.Sprintf("Attempt %d of %d", s.Job.Status.Failed+1, ptr.Deref(s.Job.Spec.BackoffLimit, retries)+1)
	for _, pod := range s.Pods {
		switch {
		case pod.DeletionTimestamp != nil:
		case pod.Status.Phase == corev1.PodRunning:
			return attempt + " runs since " + utc(pod.CreationTimestamp.Time) + s.waiting(pod.CreationTimestamp.Time)
		case pod.Status.Phase == corev1.PodPending:
			return attempt + " waits for pod " + pod.Name + " to start" + problemOf(pod)
		}
	}

	return attempt + " is about to start"
}

// waiting describes for how long the copy may wait for the final snapshot.
func (s Observation) waiting(since time.Time) string {
	wait := s.Task.Spec.WaitForFinalSnapshot
	switch {
	case wait == nil || !wait.Enabled:
		return ""
	case wait.Timeout == nil || wait.Timeout.Duration == 0:
		return "; it copies when the newest full snapshot in the source is a final one"
	default:
		return "; it copies when the newest full snapshot in the source is a final one, or at " + utc(since.Add(wait.Timeout.Duration))
	}
}

// waitTimedOut describes that the pod ran at least as long as it may wait for the final snapshot. The copy then continues
// without it.
func (s Observation) waitTimedOut() string {
	wait := s.Task.Spec.WaitForFinalSnapshot
	if wait == nil || !wait.Enabled || wait.Timeout == nil || wait.Timeout.Duration == 0 {
		return ""
	}
	for _, pod := range s.Pods {
		for _, status := range pod.Status.ContainerStatuses {
			ended := status.State.Terminated
			if ended != nil && ended.ExitCode == 0 && ended.FinishedAt.Sub(ended.StartedAt.Time) >= wait.Timeout.Duration {
				return fmt.Sprintf("; pod %s ran for longer than the %s that it was to wait for a final snapshot, and may have copied without one", pod.Name, wait.Timeout.Duration)
			}
		}
	}

	return ""
}

// afterFailures describes the number of earlier failures.
func (s Observation) afterFailures() string {
	if s.Job.Status.Failed == 0 {
		return ""
	}

	return fmt.Sprintf(", after %d failed attempts", s.Job.Status.Failed)
}

// lastFailure describes how the newest failed pod ended.
func (s Observation) lastFailure() string {
	var (
		newest *corev1.ContainerStateTerminated
		name   string
	)
	for _, pod := range s.Pods {
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			ended := status.State.Terminated
			if ended == nil || ended.ExitCode == 0 || newest != nil && !ended.FinishedAt.After(newest.FinishedAt.Time) {
				continue
			}
			newest, name = ended, pod.Name
		}
	}
	if newest == nil {
		return ""
	}

	return fmt.Sprintf("; pod %s ended at %s with code %d: %s", name, utc(newest.FinishedAt.Time), newest.ExitCode, cmp.Or(lastLine(newest.Message), newest.Reason))
}

func problemOf(pod corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return ": " + condition.Message
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := status.State.Waiting; waiting != nil && waiting.Message != "" {
			return ": " + waiting.Reason + ": " + waiting.Message
		}
	}

	return ""
}

func find(job *batchv1.Job, conditionType batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if condition := &job.Status.Conditions[i]; condition.Type == conditionType && condition.Status == corev1.ConditionTrue {
			return condition
		}
	}

	return nil
}

func reasonOf(condition *batchv1.JobCondition, otherwise string) string {
	return cmp.Or(condition.Reason, otherwise)
}

// lastLine returns the last line that is not empty, truncated for a message.
func lastLine(text string) string {
	const longest = 300
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := lines[len(lines)-1]
	if len(line) > longest {
		return strings.ToValidUTF8(line[:longest], "") + "…"
	}

	return line
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
