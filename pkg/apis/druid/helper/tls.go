// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
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

// BackupTLS is the effective TLS configuration of the HTTP server of the sidecar. Default: the references of client TLS, since
// etcd-wrapper and the sidecar must both use TLS or neither. Nil: plaintext.
func BackupTLS(etcd *druidv1alpha1.Etcd) *druidv1alpha1.TLSConfig {
	if isTLSSwitchedOff(etcd) {
		return nil
	}
	if etcd.Spec.Backup.TLS != nil {
		return etcd.Spec.Backup.TLS
	}

	return ClientTLS(etcd)
}

// CAReferences are the references to CA bundles of the effective TLS configuration, each as often as it is used.
func CAReferences(etcd *druidv1alpha1.Etcd) []druidv1alpha1.SecretReference {
	var refs []druidv1alpha1.SecretReference
	if tls := ClientTLS(etcd); tls != nil {
		refs = append(refs, tls.TLSCASecretRef)
	}
	if tls := PeerTLS(etcd); tls != nil {
		refs = append(refs, tls.TLSCASecretRef)
	}
	if tls := BackupTLS(etcd); tls != nil {
		refs = append(refs, tls.TLSCASecretRef)
	}

	return refs
}

func isTLSSwitchedOff(etcd *druidv1alpha1.Etcd) bool {
	enableTLS := etcd.Spec.Etcd.EnableTLS

	return enableTLS != nil && !*enableTLS
}
