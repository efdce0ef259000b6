// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// HostPath reads where on a node a Local store lies, which its Secret says. Empty for every other store, and where the Secret
// does not say.
func (o *Observer) HostPath(ctx context.Context, namespace string, store backupstore.Store) (string, error) {
	if store.Provider != backupstore.ProviderLocal || store.SecretName == "" {
		return "", nil
	}
	secret := &corev1.Secret{}
	if err := o.APIReader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: store.SecretName}, secret); err != nil {
		return "", fmt.Errorf("reading Secret %s: %w", store.SecretName, err)
	}

	return string(secret.Data[backupstore.KeyHostPath]), nil
}

// readStore reads the directory on the node of a Local store, what identifies the store, and who else uses it.
func (r *reader) readStore(ctx context.Context) {
	if !helper.IsStoreConfigured(r.etcd) {
		return
	}
	resolution := backupstore.Resolve(backupstore.ResolveInput{Etcd: r.etcd, Gardener: r.observation.Gardener, Pinned: r.observation.State.Store, FallBackOnRefusal: true})
	if resolution.Store == nil {
		return
	}
	hostPath, err := r.HostPath(ctx, r.etcd.Namespace, *resolution.Store)
	if err != nil {
		r.observation.LocalStore.Error = err.Error()
	}
	r.observation.LocalStore.HostPath = hostPath
	r.observation.StoreCredentials = r.storeCredentials(ctx, r.etcd.Namespace, *resolution.Store)
	if err := r.readStoreUsers(ctx, *resolution.Store); err != nil {
		r.failed(etcdcluster.SectionGardener, err)
	}
}

// storeCredentials returns what is known about the Secret with the credentials of a store. Public is nil if there is no Secret, or if it cannot be read.
func (o *Observer) storeCredentials(ctx context.Context, namespace string, store backupstore.Store) etcdcluster.StoreCredentials {
	credentials := etcdcluster.StoreCredentials{SecretName: store.SecretName}
	if store.SecretName == "" {
		return credentials
	}
	if known, exists, err := o.keysOf(ctx, client.ObjectKey{Namespace: namespace, Name: store.SecretName}); err == nil && exists {
		credentials.Public, credentials.WhiteSpaceKey = known.store, store.UsedKey(known.whiteSpaceKeys)
	}

	return credentials
}
