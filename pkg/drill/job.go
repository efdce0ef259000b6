// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Names of the containers of the Job, in their order. The last one is etcdcluster.InspectionContainer.
const (
	ContainerFetch   = "fetch"
	ContainerReplay  = "replay"
	ContainerRestore = "restore"
)

// Live is what the cluster contained when the drill began. The annotations of the Job contain it.
type Live struct {
	// Revision is that of the hash, and Hash is what HashKV of all members returned.
	Revision int64
	Hash     uint32
	// Snapshot is the newest snapshot of the store then.
	Snapshot string
	// DataAge is the age of the newest snapshot before the drill took its own, if the cluster had newer data. MissingRevisions is the number of
	// revisions that the store lacked.
	DataAge          time.Duration
	MissingRevisions int64
}

// Annotations returns the annotations of the Job.
func (l Live) Annotations() map[string]string {
	annotations := l.LackAnnotations()
	annotations[druidv1alpha1.DrillRevisionAnnotation] = strconv.FormatInt(l.Revision, 10)
	annotations[druidv1alpha1.DrillHashAnnotation] = strconv.FormatUint(uint64(l.Hash), 10)
	annotations[druidv1alpha1.DrillSnapshotAnnotation] = l.Snapshot

	return annotations
}

// LackAnnotations returns the annotations about what the store lacked, of the Job and of its task.
func (l Live) LackAnnotations() map[string]string {
	return map[string]string{
		druidv1alpha1.DrillDataAgeAnnotation:          l.DataAge.String(),
		druidv1alpha1.DrillMissingRevisionsAnnotation: strconv.FormatInt(l.MissingRevisions, 10),
	}
}

// LackOf reads these annotations. It returns false if one of them is missing, or cannot be read.
func LackOf(annotations map[string]string) (Live, bool) {
	var live Live
	var errs [2]error
	live.DataAge, errs[0] = time.ParseDuration(annotations[druidv1alpha1.DrillDataAgeAnnotation])
	live.MissingRevisions, errs[1] = strconv.ParseInt(annotations[druidv1alpha1.DrillMissingRevisionsAnnotation], 10, 64)

	return live, errs[0] == nil && errs[1] == nil
}

// LiveOf reads the annotations of the Job. A value that cannot be read is 0.
func LiveOf(job *batchv1.Job) Live {
	live, _ := LackOf(job.Annotations)
	live.Snapshot = job.Annotations[druidv1alpha1.DrillSnapshotAnnotation]
	live.Revision, _ = strconv.ParseInt(job.Annotations[druidv1alpha1.DrillRevisionAnnotation], 10, 64)
	if hash, err := strconv.ParseUint(job.Annotations[druidv1alpha1.DrillHashAnnotation], 10, 32); err == nil {
		live.Hash = uint32(hash)
	}

	return live
}

// Job is the observed state of the Job of a drill.
type Job struct {
	// UID of the Job, and Task of the EtcdOpsTask for which it was created. Attempt is the attempt of the task, from 1.
	UID, Task types.UID
	Attempt   int
	// Deleting is true while the Job is being deleted.
	Deleting bool
	// Recorded is the reason that the record contains. Empty: the result is not recorded.
	Recorded string
	// Result is how the Job has ended. Nil: it is running.
	Result *state.DrillResult
	// Proof is what it has proven. Nil: it is running, or it has proven nothing.
	Proof *state.DrillProof
}

// JobFor returns the state of the Job. The pods of a Job that has ended have to be as new as the Job. Pods of other owners are ignored.
func JobFor(job *batchv1.Job, pods []corev1.Pod) Job {
	observed := Job{
		UID:      job.UID,
		Task:     types.UID(job.Annotations[druidv1alpha1.CompactionTaskAnnotation]),
		Attempt:  1,
		Deleting: job.DeletionTimestamp != nil,
		Recorded: job.Annotations[druidv1alpha1.CompactionRecordedAnnotation],
	}
	if attempt, err := strconv.Atoi(job.Annotations[druidv1alpha1.CompactionAttemptAnnotation]); err == nil {
		observed.Attempt = attempt
	}
	for _, condition := range job.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			observed.end(job, condition, podsOf(job, pods))
		}
	}

	return observed
}

// podsOf returns the pods of the Job, newest first.
func podsOf(job *batchv1.Job, pods []corev1.Pod) []corev1.Pod {
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return etcdcluster.OwnerUID(pod) != job.UID })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })

	return pods
}

// end sets the result of a Job that has ended.
func (j *Job) end(job *batchv1.Job, condition batchv1.JobCondition, pods []corev1.Pod) {
	j.Result = &state.DrillResult{
		Task: j.Task, Job: j.UID, EndedAt: condition.LastTransitionTime.UTC(),
		Store: job.Annotations[druidv1alpha1.LeaseAnnotationStore], Repeats: job.Annotations[druidv1alpha1.DrillOfAnnotation] != "",
	}
	if condition.Type == batchv1.JobFailed {
		j.Result.Reason, j.Result.Message = failure(condition, pods)

		return
	}
	live := LiveOf(job)
	j.Result.Reason = druidv1alpha1.ReasonRestoreProven
	j.Result.Message = fmt.Sprintf("The snapshots contain the data of revision %d, and the sidecar restored them", live.Revision)
	j.Proof = &state.DrillProof{
		ProvenAt: j.Result.EndedAt, Store: j.Result.Store, Snapshot: live.Snapshot, Revision: live.Revision, Hash: live.Hash,
		RestoreTime: state.Duration(restoreTime(pods)), DataAge: state.Duration(live.DataAge), MissingRevisions: live.MissingRevisions,
	}
}

// restoreTime returns how long the containers that copy and restore the snapshots ran in the newest pod.
func restoreTime(pods []corev1.Pod) time.Duration {
	total := time.Duration(0)
	if len(pods) == 0 {
		return total
	}
	for _, container := range pods[0].Status.InitContainerStatuses {
		if terminated := container.State.Terminated; terminated != nil && (container.Name == ContainerFetch || container.Name == ContainerRestore) {
			total += terminated.FinishedAt.Sub(terminated.StartedAt.Time)
		}
	}

	return total
}

// Exit codes of etcd-helper that are faults of the snapshots.
var faults = map[string]map[int32]string{
	ContainerReplay: {
		etcdcluster.ExitCorrupt:     druidv1alpha1.ReasonSnapshotDamaged,
		etcdcluster.ExitDamaged:     druidv1alpha1.ReasonSnapshotDamaged,
		etcdcluster.ExitGap:         druidv1alpha1.ReasonEventsMissing,
		etcdcluster.ExitOverlap:     druidv1alpha1.ReasonDeltaSnapshotsOverlap,
		etcdcluster.ExitHistory:     druidv1alpha1.ReasonHistoriesDiffer,
		etcdcluster.ExitHashDiffers: druidv1alpha1.ReasonHashDiffers,
		etcdcluster.ExitNoSnapshot:  druidv1alpha1.ReasonNoSnapshot,
	},
	// The sidecar exits with code 1 for every error, and with others if it is killed. isRestoreFault distinguishes these errors.
	ContainerRestore: {1: druidv1alpha1.ReasonRestoreFailed},
	etcdcluster.InspectionContainer: {
		etcdcluster.ExitNoDatabase:     druidv1alpha1.ReasonRestoreFailed,
		etcdcluster.ExitCorrupt:        druidv1alpha1.ReasonRestoreFailed,
		etcdcluster.ExitNoFiles:        druidv1alpha1.ReasonRestoreFailed,
		etcdcluster.ExitRestoreDiffers: druidv1alpha1.ReasonRestoreDiffers,
	},
}

// restoreFaultPods is the number of pods in which the restore has to fail. A single one can fail because of its node.
const restoreFaultPods = 2

// otherErrors are parts of errors of the sidecar that are no faults of the snapshots.
var otherErrors = []string{"no space left on device", "deadline exceeded", "timeout", "timed out", "too many open files", "cannot allocate memory"}

// isRestoreFault is true if the restore has failed in enough pods, and not because of the node.
func isRestoreFault(pods []corev1.Pod) bool {
	failed := 0
	for _, pod := range pods {
		for _, container := range pod.Status.InitContainerStatuses {
			terminated := container.State.Terminated
			if container.Name != ContainerRestore || terminated == nil || terminated.ExitCode != 1 {
				continue
			}
			message := strings.ToLower(lastError(terminated.Message))
			if !slices.ContainsFunc(otherErrors, func(part string) bool { return strings.Contains(message, part) }) {
				failed++
			}
		}
	}

	return failed >= restoreFaultPods
}

// lastError returns the end of a log of the sidecar from its last error on. The lines before it are also about other things, such as the time limits of
// its etcd. The whole log if it contains no error.
func lastError(log string) string {
	return log[max(strings.LastIndex(log, "level=fatal"), 0):]
}

// failure returns the reason and the message of a failed Job. The newest pod counts: the Job repeats pods whose failure can be temporary.
func failure(condition batchv1.JobCondition, pods []corev1.Pod) (reason, message string) {
	if condition.Reason == batchv1.JobReasonDeadlineExceeded {
		return druidv1alpha1.ReasonDrillIncomplete, "The Job took longer than its deadline"
	}
	if len(pods) == 0 {
		return druidv1alpha1.ReasonDrillIncomplete, "The pod of the Job was deleted; " + condition.Message
	}
	pod := pods[0]
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		terminated := container.State.Terminated
		if terminated == nil || terminated.ExitCode == 0 {
			continue
		}
		message := etcdcluster.Excerpt(lastError(terminated.Message))
		reason, isFault := faults[container.Name][terminated.ExitCode]
		if isFault && (container.Name != ContainerRestore || isRestoreFault(pods)) {
			return reason, message
		}

		return druidv1alpha1.ReasonDrillIncomplete, fmt.Sprintf("Container %s of pod %s ended with code %d: %s", container.Name, pod.Name, terminated.ExitCode, message)
	}

	return druidv1alpha1.ReasonDrillIncomplete, fmt.Sprintf("Pod %s reports no reason; %s", pod.Name, condition.Message)
}
