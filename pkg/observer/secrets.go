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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// rememberedSecrets is how many Secrets are remembered: about ten for each of two thousand Etcds. Nobody asks again for one that was
// renewed under another name, or whose Etcd is gone, so that those asked for last are kept. With more Secrets than this some are
// read again.
const rememberedSecrets = 20_000

// secretKeys are the key names of a Secret at a resource version, and its certificates.
type secretKeys struct {
	resourceVersion string
	keys            []string
	certificates    []etcdcluster.Certificate
}

// readSecrets reads which Secrets exist, which keys they have, and until when certificates in them are valid. Secrets that
// the StatefulSet or its pods mount are among them whether anything needs them or not.
func (p *pass) readSecrets(ctx context.Context, uses []helper.SecretUse) {
	byName := map[string][]helper.SecretUse{}
	for _, use := range uses {
		byName[use.Name] = append(byName[use.Name], use)
	}
	for _, name := range p.seen.MountedSecrets() {
		byName[name] = append([]helper.SecretUse(nil), byName[name]...)
	}
	for name, uses := range byName {
		known, exists, err := p.keysOf(ctx, p.key(name))
		if err != nil {
			p.failed(etcdcluster.SectionSecrets, err)
		}
		p.seen.Secrets = append(p.seen.Secrets, etcdcluster.Secret{Name: name, Uses: uses, Exists: exists, Keys: known.keys, Certificates: known.certificates})
	}
	slices.SortFunc(p.seen.Secrets, func(a, b etcdcluster.Secret) int { return cmp.Compare(a.Name, b.Name) })
}

// keysOf returns what is known of a Secret, and whether it exists. The Secret itself is read only when its metadata,
// which is cached, shows a version that was not read before.
func (o *Observer) keysOf(ctx context.Context, key client.ObjectKey) (secretKeys, bool, error) {
	version, err := o.versionOf(ctx, key)
	if apierrors.IsNotFound(err) {
		o.remember(key, nil)

		return secretKeys{}, false, nil
	}
	if err != nil {
		return secretKeys{}, false, err
	}
	if known, found := o.recall(key); found && known.resourceVersion == version {
		return known, true, nil
	}
	secret := &corev1.Secret{}
	if err := o.APIReader.Get(ctx, key, secret); err != nil {
		return secretKeys{}, false, client.IgnoreNotFound(err)
	}
	known := secretKeys{resourceVersion: secret.ResourceVersion, keys: slices.Sorted(maps.Keys(secret.Data)), certificates: certificatesIn(secret.Data)}
	o.remember(key, &known)

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

func (o *Observer) recall(key client.ObjectKey) (secretKeys, bool) {
	known, found := o.remembered().Get(key)
	if !found {
		return secretKeys{}, false
	}

	return known.(secretKeys), true
}

// remember keeps the key names of a Secret; nil forgets them.
func (o *Observer) remember(key client.ObjectKey, known *secretKeys) {
	if known == nil {
		o.remembered().Remove(key)

		return
	}
	o.remembered().Add(key, *known)
}

// remembered is made at the first use, so that the zero Observer can be used.
func (o *Observer) remembered() *lru.Cache {
	o.once.Do(func() { o.secrets = lru.New(rememberedSecrets) })

	return o.secrets
}
