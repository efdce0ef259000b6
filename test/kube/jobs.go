// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// jobTime is the run time of a Job. It is longer than the interval at which the operator reads the Job.
const jobTime = 15 * time.Second

// jobController starts Jobs and completes them after jobTime. A Job that verifies a restore restores from the store. It fails if the store is
// empty or unreachable. A Job that inspects a volume fails if the volume is empty. The controller creates the pod of a Job when the Job has a
// result.
func (k *Cluster) jobController() bool {
	changed := false
	for _, job := range listOf[*batchv1.Job](k) {
		switch {
		case job.DeletionTimestamp != nil || ptr.Deref(job.Spec.Suspend, false) || isFinished(job, batchv1.JobComplete) || isFinished(job, batchv1.JobFailed):
		case job.Status.StartTime == nil:
			k.JobsCreated++
			changed = change(k, job, func(job *batchv1.Job) { job.Status.StartTime = new(metav1.NewTime(k.now())) }) || changed
		case k.now().Sub(job.Status.StartTime.Time) >= jobTime:
			condition := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(k.now())}
			result := k.resultOf(job)
			if result == nil || result.ExitCode != 0 {
				condition.Type, condition.Reason, condition.Message = batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
			}
			if result != nil {
				k.createJobPod(job, *result)
			}
			changed = change(k, job, func(job *batchv1.Job) { job.Status.Conditions = []batchv1.JobCondition{condition} }) || changed
		}
	}
	return changed
}

// resultOf returns how etcd-helper ends in the pod of a Job. Nil: it does not run, because nothing could be restored.
func (k *Cluster) resultOf(job *batchv1.Job) *corev1.ContainerStateTerminated {
	switch job.Labels[druidv1alpha1.LabelComponentKey] {
	case druidv1alpha1.ComponentNameInspectionJob:
		id := k.memberOfVolume(job)
		if id == 0 {
			return &corev1.ContainerStateTerminated{ExitCode: etcdcluster.ExitNoFiles, Message: "no files"}
		}
		revision := k.etcd.Revision()
		return &corev1.ContainerStateTerminated{Message: fmt.Sprintf(`{"revision":%d,"keys":%d,"hash":1,"log":%s}`, revision, revision-1, k.logOf(id))}
	case druidv1alpha1.ComponentNameRecoveryJob:
		return k.storeRecovery(job)
	default:
		newest, err := k.store.Newest()
		if err != nil {
			return nil
		}
		revision := newest.Position.Revision
		return &corev1.ContainerStateTerminated{Message: fmt.Sprintf(`{"revision":%d,"keys":%d,"hash":1}`, revision, revision-1)}
	}
}

// logOf returns the log of a member as etcd-helper reports it.
func (k *Cluster) logOf(id uint64) string {
	log := etcdcluster.InspectedLog{
		ClusterID: etcdcluster.FormatID(k.etcd.ID), MemberID: etcdcluster.FormatID(id), LastTerm: k.etcd.Term(), LastIndex: 10, MaxRevision: k.etcd.Revision(),
	}
	for _, member := range k.etcd.Members() {
		if !member.Learner {
			log.Voters = append(log.Voters, etcdcluster.FormatID(member.ID))
		}
	}
	text, err := json.Marshal(log)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// storeRecovery copies the data of a member, or of the store, into the store. It returns the result of etcd-helper. Nil: the store is unreachable.
func (k *Cluster) storeRecovery(job *batchv1.Job) *corev1.ContainerStateTerminated {
	data := k.data()
	if k.memberOfVolume(job) == 0 {
		newest, err := k.store.Newest()
		if err != nil {
			return nil
		}
		data = newest.Position
	}
	extracted := data.Revision
	containers := job.Spec.Template.Spec.InitContainers
	if by, below := flagOf(containers[len(containers)-1].Command, "--bump="), flagOf(containers[len(containers)-1].Command, "--bump-below="); by > 0 && data.Revision < below {
		data = data.Bumped(by)
	}
	snapshot, err := k.store.Add(data, k.now(), false)
	if err != nil {
		return nil
	}
	return &corev1.ContainerStateTerminated{Message: fmt.Sprintf(`{"revision":%d,"keys":%d,"hash":1,"snapshot":%q,"extractedRevision":%d}`, data.Revision, data.Revision-1, snapshot.Name(), extracted)}
}

// flagOf returns the number in a flag. 0: there is no such flag.
func flagOf(command []string, prefix string) int64 {
	for _, flag := range command {
		text, isFound := strings.CutPrefix(flag, prefix)
		if !isFound {
			continue
		}
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(err)
		}
		return number
	}
	return 0
}

// memberOfVolume returns the ID of the member whose data the volume holds that a Job mounts. 0: it holds none.
func (k *Cluster) memberOfVolume(job *batchv1.Job) uint64 {
	for _, volume := range job.Spec.Template.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		claim := getOrNil[*corev1.PersistentVolumeClaim](k, volume.PersistentVolumeClaim.ClaimName)
		if claim != nil {
			return k.memberIDs[claim.Spec.VolumeName]
		}
	}
	return 0
}

// createJobPod creates the pod of a Job in which etcd-helper has ended.
func (k *Cluster) createJobPod(job *batchv1.Job, result corev1.ContainerStateTerminated) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:       job.Namespace,
		Labels:          job.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}}
	k.mustCreate(pod, job.Name+"-"+string(job.UID))
	phase := corev1.PodSucceeded
	if result.ExitCode != 0 {
		phase = corev1.PodFailed
	}
	change(k, pod, func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
			Name: etcdcluster.InspectionContainer, State: corev1.ContainerState{Terminated: &result},
		}}}
		if job.Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameRecoveryJob {
			pod.Status.ContainerStatuses[0].Name = etcdcluster.ExtractContainer
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = pod.Status.ContainerStatuses, nil
		}
	})
}

func isFinished(job *batchv1.Job, as batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == as && c.Status == corev1.ConditionTrue })
}

// isRestoreVerified returns true while a Job exists that has restored from the store.
func (k *Cluster) isRestoreVerified() bool {
	return slices.ContainsFunc(listOf[*batchv1.Job](k), func(job *batchv1.Job) bool {
		return job.Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameRestoreVerificationJob && isFinished(job, batchv1.JobComplete)
	})
}
