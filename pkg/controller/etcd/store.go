// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
