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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

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
	o.lock.Lock()
	defer o.lock.Unlock()
	known, found := o.secrets[key]

	return known, found
}

// remember keeps the key names of a Secret; nil forgets them.
func (o *Observer) remember(key client.ObjectKey, known *secretKeys) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if known == nil {
		delete(o.secrets, key)

		return
	}
	if o.secrets == nil {
		o.secrets = map[client.ObjectKey]secretKeys{}
	}
	o.secrets[key] = *known
}
