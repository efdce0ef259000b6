// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Before volumes with data are discarded for what the store holds, a Job restores the newest snapshots of the store beside them. No
// sidecar can be asked: only the one beside the leader answers, and nobody leads. What the leases tell was true when they were
// written; since then the bucket may have been emptied or its credentials may have expired.

// RehearsalDeadline is how long the Job may take. A database of gigabytes, with many delta snapshots, takes an hour.
const RehearsalDeadline = 3 * time.Hour

// Rehearsal is what was seen of the Job that rehearses a restore. The zero value: there is none.
type Rehearsal struct {
	// Exists is false when there is no such Job; all else is zero then.
	Exists bool
	// Name and UID of the Job.
	Name string
	UID  types.UID
	// OwnerUID is the UID of its controlling owner. Empty: none.
	OwnerUID types.UID
	// Deleting is true while it is being deleted.
	Deleting bool
	// Store is the place that it restores from, as Observation.ManagedResource.StorePlace names it.
	Store string
	// Recorded is true when its outcome was told, so that whoever asks again wants another.
	Recorded bool
	// Succeeded is true when it has restored a database, Failed when it has not.
	Succeeded, Failed bool
	// Message is why it failed, or what keeps it from going on. Empty: nothing.
	Message string
}

// RehearsalFor says what was seen of a Job, and of its pods. The pods of other objects are not looked at.
func RehearsalFor(job *batchv1.Job, pods []corev1.Pod) Rehearsal {
	seen := Rehearsal{
		Exists: true, Name: job.Name, UID: job.UID, Deleting: job.DeletionTimestamp != nil,
		Store:    job.Annotations[druidv1alpha1.LeaseAnnotationStore],
		Recorded: job.Annotations[druidv1alpha1.CompactionRecordedAnnotation] != "",
	}
	for _, owner := range job.OwnerReferences {
		if owner.Controller != nil && *owner.Controller {
			seen.OwnerUID = owner.UID
		}
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return ownerUID(pod) != job.UID })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			seen.Succeeded = true

			return seen
		case batchv1.JobFailed:
			seen.Failed = true
			seen.Message = rehearsalFailure(condition, pods)

			return seen
		}
	}
	seen.Message = rehearsalTrouble(pods)

	return seen
}

func rehearsalFailure(condition batchv1.JobCondition, pods []corev1.Pod) string {
	if condition.Reason == batchv1.JobReasonDeadlineExceeded {
		return fmt.Sprintf("it took longer than %s", RehearsalDeadline)
	}
	for _, pod := range pods {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if terminated := container.State.Terminated; terminated != nil && terminated.ExitCode != 0 {
				return fmt.Sprintf("container %s of pod %s ended with code %d: %s", container.Name, pod.Name, terminated.ExitCode, excerpt(terminated.Message))
			}
		}
		if pod.Status.Message != "" {
			return fmt.Sprintf("pod %s: %s: %s", pod.Name, pod.Status.Reason, excerpt(pod.Status.Message))
		}
	}

	return "its pod does not tell why; " + condition.Message
}

// rehearsalTrouble is what keeps the newest pod from starting. Empty: nothing, as far as it tells.
func rehearsalTrouble(pods []corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	pod := pods[0]
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s has no node: %s", pod.Name, condition.Message)
		}
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := container.State.Waiting; waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing" && waiting.Reason != "ContainerCreating" {
			return fmt.Sprintf("container %s of pod %s: %s", container.Name, pod.Name, waiting.Reason)
		}
	}

	return ""
}

// isFor is true for a Job that tells of the store which is used now, for somebody who has not been told yet.
func (r Rehearsal) isFor(etcd *druidv1alpha1.Etcd, o Observation) bool {
	isSameStore := o.ManagedResource.StorePlace == "" || r.Store == o.ManagedResource.StorePlace

	return r.Exists && !r.Deleting && !r.Recorded && r.OwnerUID == etcd.UID && isSameStore
}

// isBeingRestored is true while nothing is on the volumes but what comes from the store.
func (o Observation) isBeingRestored() bool {
	phase := RestorePhase(o.ManagedResource.Restore)

	return phase == RestoreDiscard || phase == RestoreStart
}

// judgeRehearsal says what follows from the Job for a claim that has data.
func judgeRehearsal(etcd *druidv1alpha1.Etcd, o Observation, claim string) restoreVerdict {
	rehearsal := o.Rehearsal
	switch {
	case !rehearsal.isFor(etcd, o) || !rehearsal.Failed && !rehearsal.Succeeded:
		return restoreVerdict{rehearses: true}
	case rehearsal.Failed:
		return restoreVerdict{ignored: fmt.Sprintf("Job %s could not restore from the store: %s. Claim %s still has data, and nothing is discarded for a store that cannot be restored from; mend the store and ask again; %s",
			rehearsal.Name, rehearsal.Message, claim, unverifiedHint())}
	default:
		return restoreVerdict{begins: true}
	}
}

func unverifiedHint() string {
	return fmt.Sprintf("if you have looked into the store yourself, or that data is worth nothing, ask with %s=%s", druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStoreUnverified)
}

// planRehearsal has the Job made, and waits for it. Nothing else is touched.
func planRehearsal(etcd *druidv1alpha1.Etcd, o Observation) Plan {
	count, rehearsal := renderedReplicas(o), o.Rehearsal
	plan := Plan{
		// Without a rendering there is no ServiceAccount for the Job.
		Stage: StageRestore, Render: !o.ManagedResource.Exists, Replicas: count, ClusterSize: max(o.ManagedResource.Size, count),
		Restore: RestorePhase(o.ManagedResource.Restore),
		Reason:  fmt.Sprintf("a restore is asked for, and claim %s still has data: nothing is discarded before the newest snapshots were restored beside it%s", o.remainingData(), newestSnapshots(o)),
	}
	switch {
	case !rehearsal.Exists:
		plan.Step = &Step{Kind: StepRehearseRestore, Object: helper.RehearsalJobName(etcd), UID: etcd.UID}
	case rehearsal.Deleting:
		plan.WaitsFor = fmt.Sprintf("Job %s, of an earlier restore, to be gone", rehearsal.Name)
	case !rehearsal.isFor(etcd, o):
		plan.Step = &Step{Kind: StepForgetRehearsal, Object: rehearsal.Name, UID: rehearsal.UID}
	default:
		plan.WaitsFor = fmt.Sprintf("Job %s to restore from the store", rehearsal.Name)
		if rehearsal.Message != "" {
			plan.WaitsFor += ": " + rehearsal.Message + " (" + unverifiedHint() + ")"
		}
	}

	return plan
}
