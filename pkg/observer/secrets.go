// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// cachedSecrets is the number of Secrets in the cache: about ten for each of two thousand Etcds. The cache drops those that were least
// recently read. A Secret that was renewed under another name, or whose Etcd does not exist any more, is not read again. If there are more
// Secrets than this, some are read again.
const cachedSecrets = 20_000

// secretKeys are the key names of a Secret at a resource version, and its certificates with their checksums.
type secretKeys struct {
	resourceVersion string
	deleting        bool
	keys            []string
	certificates    []etcdcluster.Certificate
	checksums       map[string]string
	hasOtherKey     bool
	// store are the values that identify a backup store, if the Secret has its credentials. They are no secrets.
	store map[string]string
	// whiteSpaceKeys are the keys whose values have white space at their start or end.
	whiteSpaceKeys []string
}

// readSecrets reads which Secrets exist, which keys they have, and until when certificates in them are valid. Secrets that
// the StatefulSet or its pods mount are among them whether anything needs them or not.
func (r *reader) readSecrets(ctx context.Context, uses []helper.SecretUse) {
	byName := map[string][]helper.SecretUse{}
	for _, use := range uses {
		byName[use.Name] = append(byName[use.Name], use)
	}
	for _, name := range r.observation.MountedSecrets() {
		byName[name] = append([]helper.SecretUse(nil), byName[name]...)
	}
	for name, uses := range byName {
		known, exists, err := r.keysOf(ctx, r.key(name))
		if err != nil {
			r.failed(etcdcluster.SectionSecrets, err)
		}
		r.observation.Secrets = append(r.observation.Secrets, etcdcluster.Secret{
			Name: name, Uses: uses, Exists: exists, Deleting: known.deleting, Keys: known.keys, Certificates: known.certificates, CertificateChecksums: known.checksums,
			HasOtherKey: known.hasOtherKey,
		})
	}
	slices.SortFunc(r.observation.Secrets, func(a, b etcdcluster.Secret) int { return cmp.Compare(a.Name, b.Name) })
}

// keysOf returns what is known of a Secret, and whether it exists. The Secret itself is read only when its metadata,
// which is cached, shows a version that was not read before.
func (o *Observer) keysOf(ctx context.Context, key client.ObjectKey) (secretKeys, bool, error) {
	version, err := o.versionOf(ctx, key)
	if apierrors.IsNotFound(err) {
		o.cacheSecret(key, nil)

		return secretKeys{}, false, nil
	}
	if err != nil {
		return secretKeys{}, false, err
	}
	if known, found := o.cachedSecret(key); found && known.resourceVersion == version {
		return known, true, nil
	}
	secret := &corev1.Secret{}
	if err := o.APIReader.Get(ctx, key, secret); err != nil {
		return secretKeys{}, false, client.IgnoreNotFound(err)
	}
	known := secretKeys{
		resourceVersion: secret.ResourceVersion, deleting: secret.DeletionTimestamp != nil, keys: slices.Sorted(maps.Keys(secret.Data)),
		certificates: etcdcluster.CertificatesIn(secret.Data), checksums: certificateChecksums(secret.Data), hasOtherKey: hasOtherKey(secret.Data),
		store: backupstore.PublicValues(secret.Data), whiteSpaceKeys: backupstore.KeysWithWhiteSpace(secret.Data),
	}
	o.cacheSecret(key, &known)

	return known, true, nil
}

// versionOf is the resource version of a Secret, from its metadata.
func (o *Observer) versionOf(ctx context.Context, key client.ObjectKey) (string, error) {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := o.Reader.Get(ctx, key, metadata); err != nil {
		return "", err
	}

	return metadata.ResourceVersion, nil
}

func (o *Observer) cachedSecret(key client.ObjectKey) (secretKeys, bool) {
	known, found := o.secretCache().Get(key)
	if !found {
		return secretKeys{}, false
	}

	return known.(secretKeys), true
}

// cacheSecret caches the key names of a Secret. Nil drops them.
func (o *Observer) cacheSecret(key client.ObjectKey, known *secretKeys) {
	if known == nil {
		o.secretCache().Remove(key)

		return
	}
	o.secretCache().Add(key, *known)
}

// secretCache returns the cache. The first call creates it, so that the zero Observer can be used.
func (o *Observer) secretCache() *lru.Cache {
	o.once.Do(func() { o.secrets = lru.New(cachedSecrets) })

	return o.secrets
}
