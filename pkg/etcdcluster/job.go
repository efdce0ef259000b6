// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Before the operator deletes volumes with data, a Job restores the newest snapshots of the backup store into a temporary directory. The
// sidecars cannot verify the snapshots: only the sidecar of the leader responds, and there is no leader. The Leases of snapshots may be
// outdated: since then the bucket may have been emptied, or its credentials may have expired.

// RestoreVerificationDeadline is the maximum duration of the Job. A database of gigabytes, with many delta snapshots, takes an hour.
const RestoreVerificationDeadline = 3 * time.Hour

// RestoreVerification is the observed Job that verifies a restore. The zero value: there is no Job.
type RestoreVerification struct {
	// Exists is false if there is no such Job. All other fields are zero then.
	Exists bool
	// Name and UID of the Job.
	Name string
	UID  types.UID
	// OwnerUID is the UID of its controlling owner. Empty: none.
	OwnerUID types.UID
	// Deleting is true while it is being deleted.
	Deleting bool
	// CreationTime is when it was created: it read the store later.
	CreationTime time.Time
	// Store is the location that the Job restores from, in the form of Observation.StoreLocation.
	Store string
	// Recorded is true if its result was used, or is not needed any more: the next restore needs another Job.
	Recorded bool
	// Succeeded is true if the Job has restored a database, Failed if it has failed.
	Succeeded, Failed bool
	// Message is why the Job has failed, or why it makes no progress. Empty: no reason is known.
	Message string
	// Result is what etcd-helper found in the restored database. Nil: the Job has not succeeded.
	Result *Inspection
}

// RestoreVerificationFor returns the state of a Job and of its pods. Pods of other owners are ignored. A Job that has succeeded without a
// result of etcd-helper counts as failed.
func RestoreVerificationFor(job *batchv1.Job, pods []corev1.Pod) RestoreVerification {
	result := resultOf(job, pods, RestoreVerificationDeadline)

	return RestoreVerification{
		Exists: true, Name: job.Name, UID: job.UID, OwnerUID: controllerUID(job), Deleting: job.DeletionTimestamp != nil,
		CreationTime: job.CreationTimestamp.Time,
		Store:        job.Annotations[druidv1alpha1.LeaseAnnotationStore],
		Recorded:     job.Annotations[druidv1alpha1.CompactionRecordedAnnotation] != "",
		Succeeded:    result.found != nil, Failed: result.failed, Message: result.message, Result: result.found,
	}
}

// controllerUID returns the UID of the controlling owner. Empty: there is none.
func controllerUID(object metav1.Object) types.UID {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return owner.UID
	}

	return ""
}

// jobFailure returns why a Job has failed.
func jobFailure(condition batchv1.JobCondition, pods []corev1.Pod, deadline time.Duration) string {
	if condition.Reason == batchv1.JobReasonDeadlineExceeded {
		if problem := podProblem(pods); problem != "" {
			return fmt.Sprintf("it took longer than %s: %s", deadline, problem)
		}

		return fmt.Sprintf("it took longer than %s", deadline)
	}
	for _, pod := range pods {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if terminated := container.State.Terminated; terminated != nil && terminated.ExitCode != 0 {
				if container.Name == InspectionContainer && (terminated.ExitCode == ExitNoDatabase || terminated.ExitCode == ExitNoFiles) && len(pod.Spec.InitContainers) > 0 {
					return fmt.Sprintf("nothing was restored: the store holds no full snapshot, or the log of container %s of pod %s says why it could not be read",
						pod.Spec.InitContainers[0].Name, pod.Name)
				}

				return fmt.Sprintf("container %s of pod %s ended with code %d: %s", container.Name, pod.Name, terminated.ExitCode, Excerpt(terminated.Message))
			}
		}
		if pod.Status.Message != "" {
			return fmt.Sprintf("pod %s: %s: %s", pod.Name, pod.Status.Reason, Excerpt(pod.Status.Message))
		}
	}

	return "its pod reports no reason; " + condition.Message
}

// podProblem returns why the newest pod does not start. Empty: no reason is known.
func podProblem(pods []corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}

	return StartingPod(&pods[0]).StartProblem()
}

// longestExcerpt is the maximum size in bytes of a termination message in a message of the operator.
const longestExcerpt = 400

// OwnerUID returns the UID of the controlling owner of a pod. Empty: there is none.
func OwnerUID(pod corev1.Pod) types.UID { return controllerUID(&pod) }

// Excerpt returns the end of the termination message of a container, on one line.
func Excerpt(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestExcerpt {
		text = "..." + strings.ToValidUTF8(text[len(text)-longestExcerpt:], "")
	}
	if text == "" {
		return "no message"
	}

	return text
}
