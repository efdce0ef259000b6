// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

// resolveStore finds out where the snapshots of a canonical Etcd lie, and says it for the condition StoreResolved. Nil: nowhere.
func (r *Reconciler) resolveStore(ctx context.Context, p *pass) (*backupstore.Store, conditions.StoreAnswer, error) {
	if p.canonical.Spec.Backup.Store == nil {
		return nil, conditions.StoreAnswer{}, nil
	}
	pinned, err := backupstore.ParsePin(p.observation.ManagedResource.Store)
	if err != nil {
		err = fmt.Errorf("the annotation %s of ManagedResource %s: %w; mend it, or remove it if the store of the spec is the same as ever",
			druidv1alpha1.ManagedResourceAnnotationStore, p.observation.ManagedResource.Name, err)
		return nil, conditions.StoreAnswer{Reason: druidv1alpha1.ReasonStoreChanged, Message: err.Error()}, refused(druidv1alpha1.ErrorCodeResolveStore, err)
	}
	resolution := backupstore.Resolve(backupstore.Question{
		Etcd:     p.canonical,
		Gardener: p.observation.Gardener,
		Pinned:   pinned,
		Keeps:    p.keeps,
	})
	answer := conditions.StoreAnswer{Reason: resolution.Reason, Message: resolution.Message}
	switch {
	case resolution.Refused:
		return nil, answer, refused(druidv1alpha1.ErrorCodeResolveStore, errors.New(resolution.Message))
	case resolution.Store == nil:
		return nil, answer, &waitingError{message: "Waiting for the store: " + resolution.Message, after: safetyNet, eventReason: resolution.Reason}
	}

	store := resolution.Store
	if store.Provider == backupstore.ProviderLocal && store.SecretName != "" {
		secret := &corev1.Secret{}
		if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: p.canonical.Namespace, Name: store.SecretName}, secret); err != nil {
			err = fmt.Errorf("reading Secret %s: %w", store.SecretName, err)
			return nil, conditions.StoreAnswer{Reason: druidv1alpha1.ReasonStoreSecretMissing, Message: err.Error()}, failed(druidv1alpha1.ErrorCodeResolveStore, err)
		}
		store.HostPath = string(secret.Data[backupstore.KeyHostPath])
	}
	return store, answer, nil
}

// checkPin decides whether the store of a rendering may be written to the ManagedResource, whose annotation a user removes to change
// the store. It returns a conflict only where the caches are older than the ManagedResource or the Etcd: the next reconciliation reads
// them again. It removes the annotation from what is to be written where the ManagedResource has it already.
func (r *Reconciler) checkPin(ctx context.Context, p *pass, current *resourcesv1alpha1.ManagedResource, desired desiredResource) error {
	place := desired.annotations[druidv1alpha1.ManagedResourceAnnotationStore]
	if current == nil || place == "" {
		return nil
	}
	pinned := current.Annotations[druidv1alpha1.ManagedResourceAnnotationStore]
	switch {
	case pinned != p.observation.ManagedResource.Store, pinned == "" && p.keeps:
		return storeConflict(current.Name)
	case pinned == "":
		return r.checkNewest(ctx, p, current.Name)
	case pinned != place:
		if err := r.followSecret(ctx, current, place); err != nil {
			return err
		}
	}
	delete(desired.annotations, druidv1alpha1.ManagedResourceAnnotationStore)

	return nil
}

// checkNewest returns a conflict where the Etcd was read before its newest generation: that one may name another store.
func (r *Reconciler) checkNewest(ctx context.Context, p *pass, managedResource string) error {
	etcd := &druidv1alpha1.Etcd{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(p.etcd), etcd); err != nil {
		return failed(druidv1alpha1.ErrorCodeResolveStore, fmt.Errorf("reading the Etcd before its store is recorded: %w", err))
	}
	if etcd.UID != p.etcd.UID || etcd.Generation != p.etcd.Generation {
		return storeConflict(managedResource)
	}

	return nil
}

// followSecret records another Secret of the same place: backupstore.Resolve lets no other place come here. The optimistic lock keeps
// it from recording a place again whose annotation a user has removed since the caches were filled.
func (r *Reconciler) followSecret(ctx context.Context, current *resourcesv1alpha1.ManagedResource, place string) error {
	before := current.DeepCopy()
	metav1.SetMetaDataAnnotation(&current.ObjectMeta, druidv1alpha1.ManagedResourceAnnotationStore, place)
	if err := r.Client.Patch(ctx, current, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return failed(druidv1alpha1.ErrorCodeResolveStore, fmt.Errorf("recording the Secret of the store on ManagedResource %s: %w", current.Name, err))
	}

	return nil
}

func storeConflict(managedResource string) error {
	return apierrors.NewConflict(resourcesv1alpha1.Resource("managedresources"), managedResource, errors.New("the store that it records has changed"))
}
