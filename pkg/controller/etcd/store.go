// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

// pinnedStore is the place that a cluster first wrote its snapshots to, as the ManagedResource remembers it.
type pinnedStore struct {
	Provider  string `json:"provider"`
	Container string `json:"container"`
	Prefix    string `json:"prefix"`
}

// resolveStore finds out where the snapshots of a canonical Etcd lie, and says it for the condition StoreResolved. Nil: nowhere. A
// place other than the one that was first used is refused: the sidecar of a single member restores over local data when
// the store looks newer.
func (r *Reconciler) resolveStore(ctx context.Context, etcd *druidv1alpha1.Etcd, pinned string) (*backupstore.Store, conditions.StoreAnswer, error) {
	if etcd.Spec.Backup.Store == nil {
		return nil, conditions.StoreAnswer{}, nil
	}

	path := field.NewPath("spec", "backup", "store")
	store, errs := backupstore.FromSpec(*etcd.Spec.Backup.Store, etcd.Namespace, etcd.Name, path)
	if len(errs) > 0 {
		return refusedStore(druidv1alpha1.ReasonStoreInvalid, errs.ToAggregate())
	}
	if err := checkPinned(store, pinned, path); err != nil {
		return refusedStore(druidv1alpha1.ReasonStoreChanged, err)
	}

	if store.Provider == backupstore.ProviderLocal && store.SecretName != "" {
		secret := &corev1.Secret{}
		if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: store.SecretName}, secret); err != nil {
			err = fmt.Errorf("reading Secret %s: %w", store.SecretName, err)
			return nil, conditions.StoreAnswer{Reason: druidv1alpha1.ReasonStoreSecretMissing, Message: err.Error()}, failed(druidv1alpha1.ErrorCodeResolveStore, err)
		}
		store.HostPath = string(secret.Data[backupstore.KeyHostPath])
	}
	return &store, conditions.StoreAnswer{Reason: druidv1alpha1.ReasonStoreResolved, Message: "Snapshots go to " + pinFor(store).String()}, nil
}

func refusedStore(reason string, err error) (*backupstore.Store, conditions.StoreAnswer, error) {
	return nil, conditions.StoreAnswer{Reason: reason, Message: err.Error()}, refused(druidv1alpha1.ErrorCodeResolveStore, err)
}

func checkPinned(store backupstore.Store, pinned string, path *field.Path) error {
	if pinned == "" {
		return nil
	}
	var first pinnedStore
	if err := json.Unmarshal([]byte(pinned), &first); err != nil {
		return fmt.Errorf("the annotation %s of the ManagedResource cannot be read, so it is not known where snapshots went until now: %w; mend it, or remove it if they went to %s",
			druidv1alpha1.ManagedResourceAnnotationStore, err, pinFor(store))
	}
	if now := pinFor(store); now != first {
		return field.Forbidden(path, fmt.Sprintf("snapshots went to %s until now, and would go to %s; change it back, or remove the annotation %s from the ManagedResource if the other place is meant",
			first, now, druidv1alpha1.ManagedResourceAnnotationStore))
	}
	return nil
}

func pinFor(store backupstore.Store) pinnedStore {
	return pinnedStore{Provider: string(store.Provider), Container: store.Container, Prefix: store.Prefix}
}

// String shows the place to people.
func (p pinnedStore) String() string {
	return fmt.Sprintf("%s container %q prefix %q", p.Provider, p.Container, p.Prefix)
}

func (p pinnedStore) marshal() (string, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("pinning the store: %w", err)
	}
	return string(data), nil
}
