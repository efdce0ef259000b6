// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// setHelper sets the image of etcd-helper. It is that of this operator, not one that an accepted generation recorded: both have to know the
// same format of the result.
func (r *execution) setHelper(values *compaction.Values) error {
	configured := r.Config.EtcdHelper
	if configured.Image == "" {
		return errors.New("etcdHelper.image is not set in the configuration of the operator, and the operator could not read the image of its own pod: " +
			"set the field to the image of the operator, which contains etcd-helper")
	}
	values.HelperImage, values.HelperPullSecrets = configured.Image, configured.PullSecrets
	return nil
}

// createInspectionJob creates the Job that inspects the volume of a member. It leaves a Job alone that exists already, and refuses one of
// something else.
func (r *execution) createInspectionJob(ctx context.Context, run *engine.Run, claim etcdcluster.Claim, reason string) error {
	values := compaction.Values{Etcd: run.Target.Etcd}
	if err := r.setHelper(&values); err != nil {
		return fmt.Errorf("inspecting PersistentVolumeClaim %s: %w", claim.Name, err)
	}
	if pod := run.Observation.PodFor(claim.Ordinal); pod != nil && !pod.Deleting {
		values.Node = pod.Node // the volume is attached to this node
	}
	job := compaction.InspectionJob(values, compaction.InspectedClaim{Name: claim.Name, UID: claim.UID, Ordinal: claim.Ordinal})
	switch err := r.Client.Create(ctx, job); {
	case apierrors.IsAlreadyExists(err):
		return r.checkOwnership(ctx, run.Target.Stored, nil, []client.Object{job})
	case err != nil:
		return fmt.Errorf("creating Job %s: %w", job.Name, err)
	}
	r.event(run.Target.Stored, corev1.EventTypeNormal, "InspectingVolume", "Job %s reads the revision in the volume of PersistentVolumeClaim %s: %s", job.Name, claim.Name, reason)
	return nil
}
