// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// record changes the record on the ManagedResource, and the observed one alike. False: there is no ManagedResource, and nothing is recorded. It
// returns a conflict if the record is not the observed one any more. what names the change in errors.
func (r *Reconciler) record(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation, what string, change func(*state.State)) (bool, error) {
	mr, err := r.currentManagedResource(ctx, etcd)
	if err != nil || mr == nil || !o.ManagedResource.Exists {
		return false, err
	}
	if err := checkRecord(mr, *o); err != nil {
		return false, err
	}
	before := mr.DeepCopy()
	if mr.Annotations, err = state.Update(mr.Annotations, change); err != nil {
		return false, err
	}
	if err := r.Client.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("recording %s on ManagedResource %s: %w", what, mr.Name, err)
	}
	change(&o.State)

	return true, nil
}

// RecordEvidence implements engine.Executor.
func (r *execution) RecordEvidence(ctx context.Context, run *engine.Run, change evidence.Change) error {
	return r.recordEvidence(ctx, run.Target.Etcd, &run.Observation, change)
}

// recordEvidence records what a quorum confirms about the data.
func (r *Reconciler) recordEvidence(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation, change evidence.Change) error {
	_, err := r.record(ctx, etcd, o, "the revision and the voting members", change.Apply)

	return err
}
