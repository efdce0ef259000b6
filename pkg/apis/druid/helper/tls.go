// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ClientTLS is the effective TLS configuration of connections of clients. Nil: plaintext, because there is none or because
// spec.etcd.enableTLS is false.
func ClientTLS(etcd *druidv1alpha1.Etcd) *druidv1alpha1.TLSConfig {
	if isTLSSwitchedOff(etcd) {
		return nil
	}

	return etcd.Spec.Etcd.ClientUrlTLS
}

// PeerTLS is the effective TLS configuration of connections between members. Nil: plaintext, because there is none or
// because spec.etcd.enableTLS is false.
func PeerTLS(etcd *druidv1alpha1.Etcd) *druidv1alpha1.PeerTLSConfig {
	if isTLSSwitchedOff(etcd) {
		return nil
	}

	return etcd.Spec.Etcd.PeerUrlTLS
}

// BackupTLS is the effective TLS configuration of the sidecar's HTTP server. It falls back to the references of client
// TLS, since etcd-wrapper and the sidecar cannot restart etcd across a mix of both. Nil: plaintext.
func BackupTLS(etcd *druidv1alpha1.Etcd) *druidv1alpha1.TLSConfig {
	if isTLSSwitchedOff(etcd) {
		return nil
	}
	if etcd.Spec.Backup.TLS != nil {
		return etcd.Spec.Backup.TLS
	}

	return ClientTLS(etcd)
}

func isTLSSwitchedOff(etcd *druidv1alpha1.Etcd) bool {
	enableTLS := etcd.Spec.Etcd.EnableTLS

	return enableTLS != nil && !*enableTLS
}

// SecretUse is a Secret in the namespace of the Etcd without which its pods are not started.
type SecretUse struct {
	// Name of the Secret.
	Name string
	// Keys that the Secret must have, all of them. Nil: none in particular.
	Keys []string
	// AnyOf are keys of which the Secret must have at least one; the first that exists is used. Nil: none in particular.
	AnyOf []string
	// Field is the path of the reference in the current form of the spec, for messages.
	Field string
}

// ReferencedSecrets are the Secrets that the spec names, in the order of the spec. References without a name, TLS references
// while TLS is switched off, and the client certificate of spec.etcd.peerUrlTls, which nothing uses, are left out. The client
// certificate of spec.backup.tls is there although no pod mounts it: its author says that it belongs to the cluster. A Secret
// that is named twice appears twice.
func ReferencedSecrets(etcd *druidv1alpha1.Etcd) []SecretUse {
	var uses []SecretUse

	spec := field.NewPath("spec")
	if tls := ClientTLS(etcd); tls != nil {
		uses = append(uses, tlsSecrets(tls, spec.Child("etcd", "clientUrlTls"))...)
	}
	if tls := PeerTLS(etcd); tls != nil {
		path := spec.Child("etcd", "peerUrlTls")
		uses = append(uses, caSecret(tls.TLSCASecretRef, path), certificateSecret(tls.ServerTLSSecretRef.Name, path.Child("serverTLSSecretRef")))
	}
	if tls := BackupTLS(etcd); tls != nil && etcd.Spec.Backup.TLS != nil {
		uses = append(uses, tlsSecrets(tls, spec.Child("backup", "tls"))...)
	}
	if store := etcd.Spec.Backup.Store; store != nil && store.SecretRef != nil {
		uses = append(uses, SecretUse{Name: store.SecretRef.Name, Field: spec.Child("backup", "store", "secretRef").String()})
	}

	return withName(uses)
}

func tlsSecrets(tls *druidv1alpha1.TLSConfig, path *field.Path) []SecretUse {
	return []SecretUse{
		caSecret(tls.TLSCASecretRef, path),
		certificateSecret(tls.ServerTLSSecretRef.Name, path.Child("serverTLSSecretRef")),
		certificateSecret(tls.ClientTLSSecretRef.Name, path.Child("clientTLSSecretRef")),
	}
}

func caSecret(ref druidv1alpha1.SecretReference, path *field.Path) SecretUse {
	use := SecretUse{Name: ref.Name, Field: path.Child("tlsCASecretRef").String()}
	if ref.DataKey != nil && *ref.DataKey != "" {
		use.Keys = []string{*ref.DataKey}
	} else {
		use.AnyOf = []string{"bundle.crt", "ca.crt"}
	}

	return use
}

func certificateSecret(name string, path *field.Path) SecretUse {
	return SecretUse{Name: name, Keys: []string{"tls.crt", "tls.key"}, Field: path.String()}
}

func withName(uses []SecretUse) []SecretUse {
	var named []SecretUse
	for _, use := range uses {
		if use.Name != "" {
			named = append(named, use)
		}
	}

	return named
}
