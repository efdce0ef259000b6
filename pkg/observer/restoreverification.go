// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// readRestoreVerification reads the Job that verifies a restore, and its pods.
func (r *reader) readRestoreVerification(ctx context.Context) {
	if job, pods, exists := r.jobWithPods(ctx, helper.RestoreVerificationJobName(r.etcd), druidv1alpha1.ComponentNameRestoreVerificationJob); exists {
		verification := etcdcluster.RestoreVerificationFor(job, pods)
		verification.Message = cmp.Or(verification.Message, r.jobProblem(ctx, job))
		r.observation.RestoreVerification = verification
	}
}

// jobWithPods reads a Job of the Etcd, and its pods. exists is false if there is none, or if it cannot be read.
func (r *reader) jobWithPods(ctx context.Context, name, component string) (job *batchv1.Job, pods []corev1.Pod, exists bool) {
	job = &batchv1.Job{}
	if err := r.Reader.Get(ctx, r.key(name), job); err != nil {
		if !apierrors.IsNotFound(err) {
			r.failed(etcdcluster.SectionRestoreVerification, err)
		}

		return nil, nil, false
	}
	if !helper.IsManagedFor(job, r.etcd) {
		return nil, nil, false // the operator neither reads nor deletes a Job of something else
	}
	pods, err := r.podsOfJobs(ctx, component, *job)
	if err != nil {
		r.failed(etcdcluster.SectionRestoreVerification, err)

		return nil, nil, false
	}

	return job, pods, true
}

// readInspections reads the Jobs that inspect the volumes of members, and their pods.
func (r *reader) readInspections(ctx context.Context) {
	jobs := &batchv1.JobList{}
	if err := r.Reader.List(ctx, jobs, append(r.labelled(), client.MatchingLabels{druidv1alpha1.LabelComponentKey: druidv1alpha1.ComponentNameInspectionJob})...); err != nil {
		r.failed(etcdcluster.SectionRestoreVerification, err)

		return
	}
	jobs.Items = slices.DeleteFunc(jobs.Items, func(job batchv1.Job) bool { return !helper.IsManagedFor(&job, r.etcd) })
	if len(jobs.Items) == 0 {
		return
	}
	pods, err := r.podsOfJobs(ctx, druidv1alpha1.ComponentNameInspectionJob, jobs.Items...)
	if err != nil {
		r.failed(etcdcluster.SectionRestoreVerification, err)

		return
	}
	for i := range jobs.Items {
		inspection := etcdcluster.ClaimInspectionFor(&jobs.Items[i], pods)
		inspection.Message = cmp.Or(inspection.Message, r.jobProblem(ctx, &jobs.Items[i]))
		r.observation.Inspections = append(r.observation.Inspections, inspection)
	}
	slices.SortFunc(r.observation.Inspections, func(a, b etcdcluster.ClaimInspection) int { return cmp.Compare(a.Name, b.Name) })
}

// podsOfJobs reads the pods of a kind of Jobs. If a Job has ended, it reads them from the API server. The cache of pods may be older than
// that of Jobs, and lack the result.
func (r *reader) podsOfJobs(ctx context.Context, component string, jobs ...batchv1.Job) ([]corev1.Pod, error) {
	from := r.Reader
	if slices.ContainsFunc(jobs, func(job batchv1.Job) bool { return len(job.Status.Conditions) > 0 }) {
		from = r.APIReader
	}
	pods := &corev1.PodList{}
	err := from.List(ctx, pods, append(r.labelled(), client.MatchingLabels{druidv1alpha1.LabelComponentKey: component})...)

	return pods.Items, err
}
