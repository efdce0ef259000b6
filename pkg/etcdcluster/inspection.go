// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Inspection is what etcd-helper found in a database. The helper writes it in JSON to the termination message of its container.
type Inspection struct {
	// Revision is the highest revision in the database.
	Revision int64 `json:"revision"`
	// CompactRevision is the revision to which the database is compacted. 0: it never was.
	CompactRevision int64 `json:"compactRevision,omitempty"`
	// Keys is the number of keys that are not deleted at Revision.
	Keys int64 `json:"keys"`
	// Hash is the hash of the key-value pairs, as etcd's HashKV returns it for Revision.
	Hash uint32 `json:"hash"`
	// Log is the write-ahead log in a data directory. Nil: it was not read, see LogProblem.
	Log *InspectedLog `json:"log,omitempty"`
	// LogProblem is why the log could not be read. Empty: there is none, or it was read.
	LogProblem string `json:"logProblem,omitempty"`
}

// InspectedLog is what etcd-helper found in a write-ahead log.
type InspectedLog struct {
	// ClusterID and MemberID are the identity of the member, in hexadecimal digits.
	ClusterID string `json:"clusterID"`
	MemberID  string `json:"memberID"`
	// LastTerm and LastIndex are the term and the index of the last entry. raft elects the member for which they are the highest.
	LastTerm  uint64 `json:"lastTerm"`
	LastIndex uint64 `json:"lastIndex"`
	// MaxRevision is the highest possible revision after all entries.
	MaxRevision int64 `json:"maxRevision"`
	// DiscardedBytes is the size of the data after the last entry that can be read.
	DiscardedBytes int64 `json:"discardedBytes,omitempty"`
	// Voters are the IDs of the voting members after all entries, in hexadecimal digits.
	Voters []string `json:"voters,omitempty"`
	// FormerVoters are the IDs of the voting members that entries above the commit index remove. They may still vote, because these entries may not
	// be committed.
	FormerVoters []string `json:"formerVoters,omitempty"`
}

// ParseInspection reads a termination message of etcd-helper. The error says that the message is not one.
func ParseInspection(message string) (Inspection, error) {
	inspection := Inspection{}
	if err := json.Unmarshal([]byte(message), &inspection); err != nil {
		return Inspection{}, fmt.Errorf("reading the result of etcd-helper: %w", err)
	}
	if inspection.Revision < 1 { // that of a database without any write
		return Inspection{}, fmt.Errorf("reading the result of etcd-helper: %s contains no revision", Excerpt(message))
	}

	return inspection, nil
}

// InspectionContainer is the name of the container that runs etcd-helper.
const InspectionContainer = "inspect"

const (
	// HelperPath is the path of etcd-helper in the operator's image.
	HelperPath = "/etcd-helper"
	// ReplayContainer is the name of the container that replays snapshots. ReplayComparedContainer replays them to a second point, for a comparison.
	ReplayContainer         = "replay"
	ReplayComparedContainer = "replay-compared"
	// InspectedDatabase and ComparedDatabase are the paths of the databases of both points, in the pod of an inspection of the backup store.
	InspectedDatabase = "/var/etcd/data/point.db"
	ComparedDatabase  = "/var/etcd/data/compared.db"
)

// InspectionDeadline is the maximum duration of a Job that inspects the volume of a member. A volume that was attached to a lost node is
// attached to another one after some minutes.
const InspectionDeadline = 30 * time.Minute

// Exit codes of etcd-helper. It has others if it fails for other reasons.
const (
	// ExitNoDatabase means that there are files, but no database.
	ExitNoDatabase = 3
	// ExitCorrupt means that etcd cannot read the database.
	ExitCorrupt = 4
	// ExitNoFiles means that the data directory contains no files.
	ExitNoFiles = 5
	// ExitDamaged means that the content of a snapshot is not what the sidecar wrote.
	ExitDamaged = 6
	// ExitGap means that events between two snapshots are missing.
	ExitGap = 7
	// ExitOverlap means that delta snapshots contain the same events.
	ExitOverlap = 8
	// ExitHistory means that the snapshots are from before and after a loss of data, or that an event is missing.
	ExitHistory = 9
	// ExitUnavailable means that the data has a lower revision than requested, or that the snapshots do not contain the revision or time.
	ExitUnavailable = 10
	// ExitHashDiffers means that the snapshots do not contain what the live etcd contained.
	ExitHashDiffers = 11
	// ExitRestoreDiffers means that the sidecar restored something else than the snapshots contain.
	ExitRestoreDiffers = 12
	// ExitLog means that the write-ahead log is missing or cannot be read.
	ExitLog = 13
	// ExitNoSnapshot means that the store contains no full snapshot.
	ExitNoSnapshot = 14
)

// ClaimInspectionFor returns the state of a Job that inspects the volume of a member, and of its pods. Pods of other owners are ignored.
func ClaimInspectionFor(job *batchv1.Job, pods []corev1.Pod) ClaimInspection {
	inspection := ClaimInspection{
		Name: job.Name, UID: job.UID, OwnerUID: controllerUID(job), Deleting: job.DeletionTimestamp != nil, CreationTime: job.CreationTimestamp.Time,
		ClaimUID: types.UID(job.Annotations[druidv1alpha1.InspectionClaimUIDAnnotation]),
	}
	for _, volume := range job.Spec.Template.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			inspection.Claim = volume.PersistentVolumeClaim.ClaimName
		}
	}
	result := resultOf(job, pods, InspectionDeadline)
	inspection.Result, inspection.Failed, inspection.Message = result.found, result.failed, result.message
	if result.failed {
		code := exitCodeOf(pods, job.UID)
		inspection.Empty, inspection.Corrupt = code == ExitNoFiles, code == ExitCorrupt || code == ExitNoDatabase
	}

	return inspection
}

// jobResult is the result of a Job that runs etcd-helper.
type jobResult struct {
	// found is not nil if the Job has succeeded.
	found *Inspection
	// failed is true if the Job has failed, or if it has succeeded and its result is not known.
	failed bool
	// message is why it has failed or makes no progress. Empty: no reason is known.
	message string
}

// resultOf returns the result of a Job with this deadline. The pods of a Job that has ended have to be as new as the Job.
func resultOf(job *batchv1.Job, pods []corev1.Pod, deadline time.Duration) jobResult {
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return OwnerUID(pod) != job.UID })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			found, err := inspectionIn(pods)
			if err != nil {
				return jobResult{failed: true, message: err.Error()}
			}

			return jobResult{found: found}
		case batchv1.JobFailed:
			return jobResult{failed: true, message: jobFailure(condition, pods, deadline)}
		}
	}

	return jobResult{message: podProblem(pods)}
}

// inspectionIn returns the result in the termination message of the pod that succeeded.
func inspectionIn(pods []corev1.Pod) (*Inspection, error) {
	for _, pod := range pods {
		for _, container := range pod.Status.ContainerStatuses {
			terminated := container.State.Terminated
			if container.Name != InspectionContainer || terminated == nil || terminated.ExitCode != 0 {
				continue
			}
			inspection, err := ParseInspection(terminated.Message)
			if err != nil {
				return nil, fmt.Errorf("container %s of pod %s succeeded, but its result is not known: %w", container.Name, pod.Name, err)
			}

			return &inspection, nil
		}
	}

	return nil, errors.New("it succeeded, but its result is not known, because its pod was deleted")
}

// exitCodeOf returns the exit code of etcd-helper in the newest pod of a Job in which it has failed. 0: there is none.
func exitCodeOf(pods []corev1.Pod, job types.UID) int32 {
	var newest *corev1.Pod
	code := int32(0)
	for i := range pods {
		if OwnerUID(pods[i]) != job || newest != nil && pods[i].CreationTimestamp.Before(&newest.CreationTimestamp) {
			continue
		}
		for _, container := range pods[i].Status.ContainerStatuses {
			if terminated := container.State.Terminated; container.Name == InspectionContainer && terminated != nil && terminated.ExitCode != 0 {
				newest, code = &pods[i], terminated.ExitCode
			}
		}
	}

	return code
}

// ClaimInspection is a Job that inspects the database in the volume of a member.
type ClaimInspection struct {
	// Name and UID of the Job.
	Name string
	UID  types.UID
	// OwnerUID is the UID of its controlling owner. Empty: none.
	OwnerUID types.UID
	// Deleting is true while it is being deleted.
	Deleting bool
	// CreationTime is when it was created: it read the volume later.
	CreationTime time.Time
	// Claim and ClaimUID are the PersistentVolumeClaim that the Job mounts.
	Claim    string
	ClaimUID types.UID
	// Result is what the Job found. Nil: it has not succeeded, see Message.
	Result *Inspection
	// Failed is true if the Job has failed, for example because the database is corrupt.
	Failed bool
	// Empty is true if the Job has failed because the volume contains no files of etcd: there is nothing that could be lost.
	Empty bool
	// Corrupt is true if the Job has failed because etcd cannot use the files in the volume.
	Corrupt bool
	// Message is why the Job has failed, or why it makes no progress. Empty: no reason is known.
	Message string
}
