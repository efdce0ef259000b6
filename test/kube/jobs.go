// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobTime is the run time of a Job. It is longer than the interval at which the operator reads the Job.
const jobTime = 15 * time.Second

// jobController starts Jobs and completes them after jobTime. Each Job restores from the store. It fails if the store is empty or
// unreachable. The controller creates no pods.
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
			changed = change(k, job, func(job *batchv1.Job) { job.Status.Conditions = []batchv1.JobCondition{condition} }) || changed
		}
	}
	return changed
}

func isFinished(job *batchv1.Job, as batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == as && c.Status == corev1.ConditionTrue })
}

// isRestoreVerified returns true while a Job exists that has restored from the store.
func (k *Cluster) isRestoreVerified() bool {
	return slices.ContainsFunc(listOf[*batchv1.Job](k), func(job *batchv1.Job) bool { return isFinished(job, batchv1.JobComplete) })
}
