// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Names are the names of generated Secrets. A name is empty if the operator does not manage the Secret.
type Names struct {
	// ClientCA and PeerCA are the Secrets with the CA bundles.
	ClientCA, PeerCA string
	// Server, Client and Peer are the Secrets with the certificates.
	Server, Client, Peer string
}

// Contains returns true if one of the Secrets has the name, which must not be empty.
func (n Names) Contains(name string) bool {
	return slices.Contains([]string{n.ClientCA, n.PeerCA, n.Server, n.Client, n.Peer}, name)
}

// Effective returns a copy of a canonical Etcd with its effective TLS configuration. References to managed Secrets are filled
// in. TLS is disabled if it was disabled before and the spec no longer says so. Readers of the copy do not need the modes.
func Effective(etcd *druidv1alpha1.Etcd, modes state.TLSModes, names Names) *druidv1alpha1.Etcd {
	effective := etcd.DeepCopy()
	if modes.Client == state.ModeManaged {
		effective.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{
			TLSCASecretRef:     bundle(names.ClientCA),
			ServerTLSSecretRef: corev1.SecretReference{Name: names.Server},
			ClientTLSSecretRef: corev1.SecretReference{Name: names.Client},
		}
	}
	if modes.Peer == state.ModeManaged {
		effective.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{TLSConfig: druidv1alpha1.TLSConfig{
			TLSCASecretRef:     bundle(names.PeerCA),
			ServerTLSSecretRef: corev1.SecretReference{Name: names.Peer},
		}}
	}
	switch isOff := modes.Client == state.ModeDisabled || modes.Peer == state.ModeDisabled; {
	case isOff && hasCertificates(modes.Peer):
		// TLS is disabled for clients now, and for peers once the peer URLs can be updated.
		effective.Spec.Etcd.EnableTLS, effective.Spec.Etcd.ClientUrlTLS, effective.Spec.Backup.TLS = nil, nil, nil
	case isOff && hasCertificates(modes.Client):
		effective.Spec.Etcd.PeerUrlTLS = nil // TLS is enabled for peers once the peer URLs can be updated
	case isOff:
		effective.Spec.Etcd.EnableTLS = new(false)
	case modes.Peer == state.ModePlaintext:
		effective.Spec.Etcd.PeerUrlTLS = nil
	}

	return effective
}

func bundle(name string) druidv1alpha1.SecretReference {
	return druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: name}, DataKey: new("bundle.crt")}
}
