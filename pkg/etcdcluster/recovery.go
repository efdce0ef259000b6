// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// RevisionBump is by how much a recovery increases the revision, unless it is proven that nothing is lost.
const RevisionBump = 1_000_000_000

// ExtractContainer is the name of the container of a RecoveryJob that runs etcd-helper.
const ExtractContainer = "extract"

// RecoveryJob is the observed Job that stores the data from which a cluster is recovered. The zero value: there is no Job.
type RecoveryJob struct {
	// Exists is false if there is no such Job. All other fields are zero then.
	Exists bool
	// Name and UID of the Job.
	Name string
	UID  types.UID
	// OwnerUID is the UID of its controlling owner. Empty: none.
	OwnerUID types.UID
	// Deleting is true while it is being deleted.
	Deleting bool
	// Suspended is true before the operator has resumed it. It has no pod, and has never had one.
	Suspended bool
	// CreationTime is when it was created.
	CreationTime time.Time
	// Store is the location to which the Job copies the data, in the form of Observation.StoreLocation.
	Store string
	// Token is that of the option for which it was created.
	Token string
	// Failed is true if the Job has failed. CopiedNothing is then true if the container that copies has not started, and Rejected if etcd-helper refuses
	// the data in addition. Another Job would refuse it too.
	Failed, CopiedNothing, Rejected bool
	// Result is what the Job has copied. Nil: it has not succeeded.
	Result *Extraction
	// Message is why the Job has failed, or why it makes no progress. Empty: no reason is known.
	Message string
}

// Extraction is the full snapshot that etcd-helper has created, in its form in JSON.
type Extraction struct {
	Inspection
	// Snapshot is the name of the full snapshot.
	Snapshot string `json:"snapshot"`
	// ExtractedRevision is the highest revision before the bump.
	ExtractedRevision int64 `json:"extractedRevision"`
}

// RecoveryDeadline is the maximum duration of a RecoveryJob.
const RecoveryDeadline = 3 * time.Hour

// RecoveryJobFor returns the state of a RecoveryJob and of its pods. Pods of other owners are ignored.
func RecoveryJobFor(job *batchv1.Job, pods []corev1.Pod) RecoveryJob {
	observed := RecoveryJob{
		Exists: true, Name: job.Name, UID: job.UID, OwnerUID: controllerUID(job), Deleting: job.DeletionTimestamp != nil, CreationTime: job.CreationTimestamp.Time,
		Suspended: ptr.Deref(job.Spec.Suspend, false) && job.Status.StartTime == nil, Store: job.Annotations[druidv1alpha1.LeaseAnnotationStore], Token: job.Annotations[druidv1alpha1.RecoveryTokenAnnotation],
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return OwnerUID(pod) != job.UID })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			result, err := extractionIn(pods)
			observed.Result, observed.Failed = result, err != nil
			if err != nil {
				observed.Message = err.Error()
			}

			return observed
		case batchv1.JobFailed:
			observed.Failed, observed.Message = true, jobFailure(condition, pods, RecoveryDeadline)
			observed.CopiedNothing, observed.Rejected = hasCopiedNothing(pods)

			return observed
		}
	}
	observed.Message = podProblem(pods)

	return observed
}

// extractionIn returns the result in the termination message of the init container of the pod that succeeded.
func extractionIn(pods []corev1.Pod) (*Extraction, error) {
	for _, pod := range pods {
		for _, container := range pod.Status.InitContainerStatuses {
			terminated := container.State.Terminated
			if container.Name != ExtractContainer || pod.Status.Phase != corev1.PodSucceeded || terminated == nil {
				continue
			}
			extraction := &Extraction{}
			if err := json.Unmarshal([]byte(terminated.Message), extraction); err != nil || extraction.Revision < 1 || extraction.Snapshot == "" {
				return nil, fmt.Errorf("the result of container %s of pod %s is not known: %s", container.Name, pod.Name, Excerpt(terminated.Message))
			}

			return extraction, nil
		}
	}

	return nil, fmt.Errorf("it succeeded, but its result is not known, because its pod was deleted")
}

// RecoveryRefusals are the exit codes with which etcd-helper refuses the data of a recovery.
var RecoveryRefusals = []int32{ExitNoDatabase, ExitCorrupt, ExitNoFiles, ExitUnavailable, ExitLog}

// hasCopiedNothing returns whether an init container has failed in the only pod, so that the container that copies has not started. isRejected is true
// if etcd-helper refuses the data. A pod that was deleted may have copied. A Job has one pod, because it does not retry.
func hasCopiedNothing(pods []corev1.Pod) (copiedNothing, isRejected bool) {
	if len(pods) != 1 {
		return false, false
	}
	for _, container := range pods[0].Status.InitContainerStatuses {
		if terminated := container.State.Terminated; terminated != nil && terminated.ExitCode != 0 {
			return true, container.Name == ExtractContainer && slices.Contains(RecoveryRefusals, terminated.ExitCode)
		}
	}

	return false, false
}
