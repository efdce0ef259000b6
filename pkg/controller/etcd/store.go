// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// resolveStore finds out where the snapshots of a canonical Etcd lie, and says it for the condition StoreResolved. Nil: nowhere.
func (r *Reconciler) resolveStore(ctx context.Context, p *pass) (*backupstore.Store, conditions.StoreResolution, error) {
	if p.canonical.Spec.Backup.Store == nil {
		return nil, conditions.StoreResolution{}, nil
	}
	pinned := p.observation.State.Store
	if message := p.observation.State.StoreError; message != "" {
		err := fmt.Errorf("the annotation %s of ManagedResource %s: %s; mend it, or remove it if the store of the spec is the same as ever",
			druidv1alpha1.ManagedResourceAnnotationStore, p.observation.ManagedResource.Name, message)
		return nil, conditions.StoreResolution{Reason: druidv1alpha1.ReasonStoreChanged, Message: err.Error()}, plan.Refused(druidv1alpha1.ErrorCodeResolveStore, err)
	}
	resolution := backupstore.Resolve(backupstore.ResolveInput{
		Etcd:              p.canonical,
		Gardener:          p.observation.Gardener,
		Pinned:            pinned,
		FallBackOnRefusal: p.keeps,
	})
	answer := conditions.StoreResolution{Reason: resolution.Reason, Message: resolution.Message}
	switch {
	case resolution.Refused:
		return nil, answer, plan.Refused(druidv1alpha1.ErrorCodeResolveStore, errors.New(resolution.Message))
	case resolution.Store == nil:
		return nil, answer, &plan.Problem{Kind: plan.ProblemWaiting, Message: "Waiting for the store: " + resolution.Message, RequeueAfter: engine.FallbackResync, EventReason: resolution.Reason}
	}

	if resolution.Store.Provider != backupstore.ProviderLocal {
		return resolution.Store, answer, nil
	}
	return r.locateStore(ctx, p, *resolution.Store, pinned, answer)
}

// locateStore adds the directory of the node to a Local store. It refuses a directory that the operator's configuration does not list, and
// another one than the cluster has used until now.
func (r *Reconciler) locateStore(ctx context.Context, p *pass, store backupstore.Store, pinned *state.Store, answer conditions.StoreResolution) (*backupstore.Store, conditions.StoreResolution, error) {
	mounted, used := store.Directory(p.observation.StatefulSet.LocalStore), ""
	if pinned != nil {
		used = cmp.Or(pinned.HostPath, mounted)
	}
	if p.keeps && used != "" {
		store.HostPath = used
		isMounted := used == mounted || !p.observation.StatefulSet.Exists && p.observation.ManagedResource.Exists && used == pinned.HostPath
		return r.keepLocated(store, answer, isMounted)
	}
	hostPath, err := r.hostPath(ctx, p.canonical.Namespace, store)
	if err != nil {
		return nil, conditions.StoreResolution{Reason: druidv1alpha1.ReasonStoreSecretMissing, Message: err.Error()}, plan.Failed(druidv1alpha1.ErrorCodeResolveStore, err)
	}
	located, err := r.Config.LocalStoreRoots.Locate(store, hostPath)
	switch {
	case err != nil:
		return refuseStore(druidv1alpha1.ReasonStoreInvalid, err)
	case used != "" && used != located.HostPath:
		return refuseStore(druidv1alpha1.ReasonStoreChanged, fmt.Errorf(
			"snapshots went to directory %q on the node until now, and would go to directory %q; restore key %s in the Secret of the store, or remove the annotation %s from ManagedResource %s if you want to use the other directory",
			used, located.HostPath, backupstore.KeyHostPath, druidv1alpha1.ManagedResourceAnnotationStore, p.observation.ManagedResource.Name))
	default:
		return &located, answer, nil
	}
}

// keepLocated lets the accepted generation use the directory of the cluster. If the operator's configuration does not list it, the
// StatefulSet must mount it already. If the StatefulSet was deleted, the record of the ManagedResource stands for it.
func (r *Reconciler) keepLocated(store backupstore.Store, answer conditions.StoreResolution, isMounted bool) (*backupstore.Store, conditions.StoreResolution, error) {
	switch _, err := r.Config.LocalStoreRoots.Locate(store, ""); {
	case err == nil:
		return &store, answer, nil
	case !isMounted:
		return refuseStore(druidv1alpha1.ReasonStoreInvalid, err)
	default:
		return &store, conditions.StoreResolution{Reason: druidv1alpha1.ReasonStoreInvalid, Message: answer.Message + ", as before: " + err.Error()}, nil
	}
}

// hostPath reads the directory of the node from the Secret of a Local store. Empty: there is no Secret, or it names none.
func (r *Reconciler) hostPath(ctx context.Context, namespace string, store backupstore.Store) (string, error) {
	if store.SecretName == "" {
		return "", nil
	}
	secret := &corev1.Secret{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: store.SecretName}, secret); err != nil {
		return "", fmt.Errorf("reading Secret %s: %w", store.SecretName, err)
	}
	return string(secret.Data[backupstore.KeyHostPath]), nil
}

// refuseStore is the answer for a store that the operator does not use.
func refuseStore(reason string, err error) (*backupstore.Store, conditions.StoreResolution, error) {
	err = fmt.Errorf("spec.backup.store: %w", err)
	return nil, conditions.StoreResolution{Reason: reason, Message: err.Error()}, plan.Refused(druidv1alpha1.ErrorCodeResolveStore, err)
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
	case !reflect.DeepEqual(state.Decode(current.Annotations).Store, p.observation.State.Store), pinned == "" && p.keeps:
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
		return plan.Failed(druidv1alpha1.ErrorCodeResolveStore, fmt.Errorf("reading the Etcd before its store is recorded: %w", err))
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
		return plan.Failed(druidv1alpha1.ErrorCodeResolveStore, fmt.Errorf("recording the Secret of the store on ManagedResource %s: %w", current.Name, err))
	}

	return nil
}

func storeConflict(managedResource string) error {
	return apierrors.NewConflict(resourcesv1alpha1.Resource("managedresources"), managedResource, errors.New("the store that it records has changed"))
}
