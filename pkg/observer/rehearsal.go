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

// readRehearsal reads the Job that rehearses a restore, and its pods.
func (p *pass) readRehearsal(ctx context.Context) {
	job := &batchv1.Job{}
	if err := p.Reader.Get(ctx, p.key(helper.RestoreVerificationJobName(p.etcd)), job); err != nil {
		if !apierrors.IsNotFound(err) {
			p.failed(etcdcluster.SectionRestoreVerification, err)
		}

		return
	}
	if !helper.IsOwned(job, p.etcd) && !helper.IsOwnedByPrevious(job, p.etcd) {
		return // the operator neither reads nor deletes a Job of something else
	}
	pods := &corev1.PodList{}
	if err := p.Reader.List(ctx, pods, append(p.ours(), client.MatchingLabels{druidv1alpha1.LabelComponentKey: druidv1alpha1.ComponentNameRestoreVerificationJob})...); err != nil {
		p.failed(etcdcluster.SectionRestoreVerification, err)

		return
	}
	p.seen.RestoreVerification = etcdcluster.RestoreVerificationFor(job, pods.Items)
}
