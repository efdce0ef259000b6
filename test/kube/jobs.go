// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// jobTime is the run time of a Job. It is longer than the interval at which the operator reads the Job.
const jobTime = 15 * time.Second

// jobController starts Jobs and completes them after jobTime. Each Job restores from the store. It fails if the store is empty or
// unreachable. The controller creates the pod of a Job when the Job succeeds, with the revision of the store as the result.
func (k *Cluster) jobController() bool {
	changed := false
	for _, job := range listOf[*batchv1.Job](k) {
		switch {
		case job.DeletionTimestamp != nil || isFinished(job, batchv1.JobComplete) || isFinished(job, batchv1.JobFailed):
		case job.Status.StartTime == nil:
			k.JobsCreated++
			changed = change(k, job, func(job *batchv1.Job) { job.Status.StartTime = new(metav1.NewTime(k.now())) }) || changed
		case k.now().Sub(job.Status.StartTime.Time) >= jobTime:
			condition := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(k.now())}
			if !k.store.restorable() {
				condition.Type, condition.Reason, condition.Message = batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
			}
			if condition.Type == batchv1.JobComplete {
				k.createJobPod(job)
			}
			changed = change(k, job, func(job *batchv1.Job) { job.Status.Conditions = []batchv1.JobCondition{condition} }) || changed
		}
	}
	return changed
}

// createJobPod creates the pod of a Job, which has ended with the revision of the store as the result of etcd-helper.
func (k *Cluster) createJobPod(job *batchv1.Job) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:       job.Namespace,
		Labels:          job.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}}
	k.mustCreate(pod, job.Name+"-"+string(job.UID))
	newest, err := k.store.Newest()
	if err != nil {
		panic(err) // the Job would have failed
	}
	change(k, pod, func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
			Name: etcdcluster.InspectionContainer,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Message: fmt.Sprintf(`{"revision":%d,"keys":%d,"hash":1}`, newest.Position.Revision, newest.Position.Revision-1),
			}},
		}}}
	})
}

func isFinished(job *batchv1.Job, as batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == as && c.Status == corev1.ConditionTrue })
}

// isRestoreVerified returns true while a Job exists that has restored from the store.
func (k *Cluster) isRestoreVerified() bool {
	return slices.ContainsFunc(listOf[*batchv1.Job](k), func(job *batchv1.Job) bool { return isFinished(job, batchv1.JobComplete) })
}
