// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// credentials returns how to connect with the named Secrets; nil for plaintext. Their content is read only when a
// connection is made.
func (r *reader) credentials(ctx context.Context, secrets *etcdcluster.ClientSecrets) (*etcdclient.Credentials, error) {
	if secrets == nil {
		return nil, nil
	}
	version := ""
	for _, name := range []string{secrets.CA, secrets.Client} {
		if name == "" {
			continue
		}
		resourceVersion, err := r.versionOf(ctx, r.key(name))
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s: %w", name, err)
		}
		version += name + "@" + resourceVersion + " "
	}

	return &etcdclient.Credentials{Version: r.etcd.Namespace + " " + version, Load: func(ctx context.Context) (etcdclient.TLS, error) {
		return r.ClientTLS(ctx, r.etcd, *secrets)
	}}, nil
}

// ClientTLS reads the Secrets with which clients of a canonical Etcd's members connect. The error names the one that is missing
// or holds no CA.
func (o *Observer) ClientTLS(ctx context.Context, etcd *druidv1alpha1.Etcd, secrets etcdcluster.ClientSecrets) (etcdclient.TLS, error) {
	r := &reader{Observer: o, etcd: etcd}
	ca := &corev1.Secret{}
	if err := r.APIReader.Get(ctx, r.key(secrets.CA), ca); err != nil {
		return etcdclient.TLS{}, fmt.Errorf("reading Secret %s: %w", secrets.CA, err)
	}
	bundle, err := r.bundleOf(ca)
	if err != nil || secrets.Client == "" {
		return etcdclient.TLS{CA: bundle}, err
	}
	client := &corev1.Secret{}
	if err := r.APIReader.Get(ctx, r.key(secrets.Client), client); err != nil {
		return etcdclient.TLS{}, fmt.Errorf("reading Secret %s: %w", secrets.Client, err)
	}

	return etcdclient.TLS{CA: bundle, Certificate: client.Data[corev1.TLSCertKey], Key: client.Data[corev1.TLSPrivateKeyKey]}, nil
}

// bundleOf returns the CA certificates in a Secret: under the key that the spec names for it, else the usual ones. Pods may still mount a Secret to
// which an earlier spec had a reference with another key. Without these keys, it returns all certificates except those of the key tls.crt.
func (r *reader) bundleOf(secret *corev1.Secret) ([]byte, error) {
	keys := []string{"bundle.crt", "ca.crt"}
	for _, tls := range []*druidv1alpha1.TLSConfig{helper.ClientTLS(r.etcd), helper.BackupTLS(r.etcd)} {
		if tls != nil && tls.TLSCASecretRef.Name == secret.Name && tls.TLSCASecretRef.DataKey != nil {
			keys = append([]string{*tls.TLSCASecretRef.DataKey}, keys...)
		}
	}
	for _, key := range keys {
		if bundle := secret.Data[key]; len(bundle) > 0 {
			return bundle, nil
		}
	}

	others := slices.DeleteFunc(etcdcluster.CertificatesIn(secret.Data), func(c etcdcluster.Certificate) bool { return c.Key == corev1.TLSCertKey })
	if len(others) > 0 {
		return etcdcluster.EncodeBundle(others), nil
	}

	return nil, fmt.Errorf("secret %s has none of the keys %v", secret.Name, keys)
}
