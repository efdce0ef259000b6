// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// checkPin decides whether the store of a rendering may be written to the ManagedResource, whose annotation a user removes to change
// the store. It returns a conflict only where the caches are older than the ManagedResource or the Etcd: the next reconciliation reads
// them again. It removes the annotation from what is to be written where the ManagedResource has it already.
func (r *execution) checkPin(ctx context.Context, run *engine.Run, desired desiredResource) error {
	current := r.current
	location := desired.annotations[druidv1alpha1.ManagedResourceAnnotationStore]
	if current == nil || location == "" {
		return nil
	}
	pinned := current.Annotations[druidv1alpha1.ManagedResourceAnnotationStore]
	switch {
	case pinned == "" && run.Target.Source == target.LastAccepted:
		return storeConflict(current.Name)
	case pinned == "":
		return r.checkNewest(ctx, run, current.Name)
	case pinned != location:
		if err := r.reserveStore(run); err != nil {
			return err
		}
		if err := r.followSecret(ctx, current, location); err != nil {
			return err
		}
	}
	delete(desired.annotations, druidv1alpha1.ManagedResourceAnnotationStore)

	return nil
}

// reserveStore reserves the store before the ManagedResource records it, or another endpoint or account. The caches do not show this record to
// another Etcd that begins to use the store at the same time. The reservation outlives every observation from before the record.
func (r *execution) reserveStore(run *engine.Run) error {
	if run.Target.StoreRecord == nil || r.hasRecorded(*run.Target.StoreRecord) {
		return nil
	}
	if !r.Stores.Reserve(calls.StoreUser{Key: client.ObjectKeyFromObject(run.Target.Stored)}, *run.Target.StoreRecord) {
		return plan.Waiting(target.StoreUserResync, "Waiting for the store: another Etcd or EtcdCopyBackupsTask has just begun to use %s", run.Target.StoreRecord)
	}

	return nil
}

// hasRecorded is true if the ManagedResource has recorded the endpoint and the account of a store. Its location cannot change while a store is
// recorded.
func (r *execution) hasRecorded(store state.Store) bool {
	if r.current == nil {
		return false
	}
	recorded, err := state.ParseStore(r.current.Annotations[druidv1alpha1.ManagedResourceAnnotationStore])
	if err != nil || recorded == nil {
		return false
	}

	return store.HasSameIdentity(*recorded) && (backupstore.IsIdentified(*recorded) || !backupstore.IsIdentified(store))
}

// checkNewest returns a conflict where the Etcd was read before its newest generation: that one may name another store.
func (r *execution) checkNewest(ctx context.Context, run *engine.Run, managedResource string) error {
	etcd := &druidv1alpha1.Etcd{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(run.Target.Stored), etcd); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeResolveStore, fmt.Errorf("reading the Etcd before its store is recorded: %w", err))
	}
	if etcd.UID != run.Target.Stored.UID || etcd.Generation != run.Target.Stored.Generation {
		return storeConflict(managedResource)
	}

	return nil
}

// followSecret records another Secret, endpoint or account for the same location: backupstore.Resolve returns no other location here. The optimistic lock prevents
// it from recording a location again whose annotation a user has removed since the caches were filled.
func (r *Reconciler) followSecret(ctx context.Context, current *resourcesv1alpha1.ManagedResource, location string) error {
	before := current.DeepCopy()
	metav1.SetMetaDataAnnotation(&current.ObjectMeta, druidv1alpha1.ManagedResourceAnnotationStore, location)
	if err := r.Client.Patch(ctx, current, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeResolveStore, fmt.Errorf("recording the Secret of the store on ManagedResource %s: %w", current.Name, err))
	}

	return nil
}

func storeConflict(managedResource string) error {
	return apierrors.NewConflict(resourcesv1alpha1.Resource("managedresources"), managedResource, errors.New("the store that it records has changed"))
}
