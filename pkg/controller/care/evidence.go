// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"errors"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// recordEvidence records what a quorum has confirmed about the data on the ManagedResource. The etcd controller does not reconcile a cluster in
// which nothing changes; this controller observes it periodically. The observation gets what was recorded. It returns a conflict if the
// ManagedResource is not the observed one any more. Then the observation may be older than a restore, and the next one decides.
func (r *Reconciler) recordEvidence(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation) error {
	if !canRecord(*o) {
		return nil
	}
	change := evidence.ChangeAfter(etcd, *o, r.Clock.Now())
	if change.IsEmpty() {
		return nil
	}

	return r.record(ctx, etcd, o, change.Apply)
}

// canRecord is true if the observed ManagedResource may have a record.
func canRecord(o etcdcluster.Observation) bool {
	return o.ManagedResource.Exists && !o.ManagedResource.Deleting && o.Failure(etcdcluster.SectionManagedResource) == ""
}

// record changes the record on the ManagedResource, and in the observation. It returns a conflict if the ManagedResource is not the observed one any more.
func (r *Reconciler) record(ctx context.Context, etcd *druidv1alpha1.Etcd, o *etcdcluster.Observation, change func(*state.State)) error {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: o.ManagedResource.Name}, mr); err != nil {
		return client.IgnoreNotFound(err)
	}
	recorded, err := state.Decode(mr.Annotations)
	if err != nil {
		return err
	}
	if mr.UID != o.ManagedResource.UID || !recorded.IsSame(o.State) {
		return apierrors.NewConflict(resourcesv1alpha1.Resource("managedresources"), mr.Name, errors.New("its record has changed since the observation"))
	}
	before := mr.DeepCopy()
	annotations, err := state.Update(mr.Annotations, change)
	if err != nil {
		return err
	}
	mr.Annotations = annotations
	if err := r.Client.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("recording what the members have returned on ManagedResource %s: %w", mr.Name, err))
	}
	change(&o.State)

	return nil
}
