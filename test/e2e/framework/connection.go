// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Connection returns the configuration of a client that mounts the Secret `<etcd>-connection` and connects to the
// client Service. It returns nil if the Secret does not exist.
func (ns *TestNamespace) Connection(ctx context.Context, etcd *druidv1alpha1.Etcd) (*tls.Config, error) {
	secret := &corev1.Secret{}
	if err := ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: etcd.Name + "-connection"}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}

		return nil, err
	}

	certificate, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		return nil, err
	}

	config := &tls.Config{ServerName: etcd.Name + "-client", RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return nil, fmt.Errorf("no CA in Secret %s", secret.Name)
	}

	return config, nil
}
