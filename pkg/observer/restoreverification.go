// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"

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
	job := &batchv1.Job{}
	if err := r.Reader.Get(ctx, r.key(helper.RestoreVerificationJobName(r.etcd)), job); err != nil {
		if !apierrors.IsNotFound(err) {
			r.failed(etcdcluster.SectionRestoreVerification, err)
		}

		return
	}
	if !helper.IsManagedFor(job, r.etcd) {
		return // the operator neither reads nor deletes a Job of something else
	}
	pods := &corev1.PodList{}
	if err := r.Reader.List(ctx, pods, append(r.labelled(), client.MatchingLabels{druidv1alpha1.LabelComponentKey: druidv1alpha1.ComponentNameRestoreVerificationJob})...); err != nil {
		r.failed(etcdcluster.SectionRestoreVerification, err)

		return
	}
	r.observation.RestoreVerification = etcdcluster.RestoreVerificationFor(job, pods.Items)
}
