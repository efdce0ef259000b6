// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// TLSConfig names the secrets of one kind of connection. All are in the namespace of the Etcd; `namespace` in a reference
// is ignored.
type TLSConfig struct {
	// TLSCASecretRef is the Secret with the CA bundle that verifies the other side.
	// +required
	TLSCASecretRef SecretReference `json:"tlsCASecretRef"`
	// ServerTLSSecretRef is the Secret with the certificate of the server: keys `tls.crt` and `tls.key`. It must be valid
	// for the names of the Services, of the pods and for `<etcd>-local`.
	// +required
	ServerTLSSecretRef corev1.SecretReference `json:"serverTLSSecretRef"`
	// ClientTLSSecretRef is the Secret with the certificate with which etcd-wrapper, the sidecar and the operator connect:
	// keys `tls.crt` and `tls.key`. The schema does not require it, but for connections of clients nothing works without
	// it, so that the controller refuses its absence there. Not used for the sidecar's server and between members.
	// +optional
	ClientTLSSecretRef corev1.SecretReference `json:"clientTLSSecretRef"`
}

// PeerTLSConfig names the secrets of connections between members.
type PeerTLSConfig struct {
	TLSConfig `json:",inline"`

	// SkipClientSANVerification makes etcd 3.6 and newer accept each client certificate that the peer CA has signed, regardless of its names.
	// etcd 3.4 and 3.5 have no such option in their configuration file. There it has no effect. Unset: false.
	// +optional
	SkipClientSANVerification *bool `json:"skipClientSANVerification,omitempty"`
}

// SecretReference names a Secret and a key in it.
type SecretReference struct {
	corev1.SecretReference `json:",inline"`
	// DataKey is the key in the Secret. Unset: `bundle.crt`, else `ca.crt`, whichever exists.
	// At most 253 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DataKey *string `json:"dataKey,omitempty"`
}
