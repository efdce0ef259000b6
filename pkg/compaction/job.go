// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// disruptions are the reasons of the pod condition DisruptionTarget that are reported as an outcome.
var disruptions = []string{
	druidv1alpha1.PodFailureReasonPreemptionByScheduler,
	druidv1alpha1.PodFailureReasonDeletionByTaintManager,
	druidv1alpha1.PodFailureReasonEvictionByEvictionAPI,
	druidv1alpha1.PodFailureReasonTerminationByKubelet,
}

// JobFor returns the observed state of a Job and its pods. It ignores pods that another object owns.
func JobFor(job *batchv1.Job, pods []corev1.Pod) Job {
	obs := Job{
		Deleting:     job.DeletionTimestamp != nil,
		Recorded:     job.Annotations[druidv1alpha1.CompactionRecordedAnnotation] != "",
		Task:         types.UID(job.Annotations[druidv1alpha1.CompactionTaskAnnotation]),
		Attempt:      1,
		BaseRevision: job.Annotations[druidv1alpha1.CompactionBaseAnnotation],
	}
	if attempt, err := strconv.Atoi(job.Annotations[druidv1alpha1.CompactionAttemptAnnotation]); err == nil && attempt > 1 {
		obs.Attempt = attempt
	}
	if job.Status.StartTime != nil {
		obs.StartTime = job.Status.StartTime.Time
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return etcdcluster.OwnerUID(pod) != job.UID })
	obs.Disruption = job.Annotations[druidv1alpha1.CompactionDisruptionAnnotation]
	obs.DisruptionRecorded = obs.Disruption != ""
	if obs.Disruption == "" {
		obs.Disruption = disruptionOf(pods)
	}
	obs.setOutcome(job, pods)
	if obs.Recorded && obs.Outcome != "" {
		// The recorded outcome was computed from the snapshots, or from a pod that may be deleted now.
		obs.Outcome = job.Annotations[druidv1alpha1.CompactionRecordedAnnotation]
	}

	return obs
}

// setOutcome sets the outcome and the end time of the Job.
func (j *Job) setOutcome(job *batchv1.Job, pods []corev1.Pod) {
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			j.Outcome, j.EndTime = druidv1alpha1.PodSuccessReasonNone, condition.LastTransitionTime.Time
			j.Message = fmt.Sprintf("Job %s has compacted the snapshots", job.Name)
		case batchv1.JobFailed:
			j.EndTime = condition.LastTransitionTime.Time
			j.Outcome, j.Message = j.failure(condition, pods)
			j.Message = fmt.Sprintf("Attempt %d of Job %s has failed: %s", j.Attempt, job.Name, j.Message)
		}
	}
}

// failure returns the reason of a failed Job and its message.
func (j *Job) failure(condition batchv1.JobCondition, pods []corev1.Pod) (string, string) {
	switch {
	case condition.Reason == druidv1alpha1.JobFailureReasonDeadlineExceeded:
		return druidv1alpha1.JobFailureReasonDeadlineExceeded, "it took longer than controllers.compaction.activeDeadlineDuration of the operator's configuration allows"
	case j.Disruption != "":
		return j.Disruption, "its pod was ended from outside"
	}
	for _, pod := range pods {
		for _, container := range pod.Status.ContainerStatuses {
			if terminated := container.State.Terminated; terminated != nil {
				return druidv1alpha1.PodFailureReasonProcessFailure, fmt.Sprintf("the container of pod %s ended with code %d: %s", pod.Name, terminated.ExitCode, etcdcluster.Excerpt(terminated.Message))
			}
		}
	}

	return druidv1alpha1.PodFailureReasonUnknown, "the status of its pod contains no reason; " + condition.Message
}

// HasUnknownFailure is true for a failed Job whose outcome is not recorded, and whose pods contain no reason.
func (j Job) HasUnknownFailure() bool {
	return !j.Recorded && j.Outcome == druidv1alpha1.PodFailureReasonUnknown
}

// disruptionOf returns the reason of the first disruption of a pod. Empty: no pod is disrupted.
func disruptionOf(pods []corev1.Pod) string {
	for _, pod := range pods {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue && slices.Contains(disruptions, condition.Reason) {
				return condition.Reason
			}
		}
	}

	return ""
}
