// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// SecretUse is a use of a Secret by the pods, in the namespace of the Etcd. The pods do not start without the Secret.
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

// NeededSecrets are the Secrets without which the pods cannot run, in the order of the spec. References without a name are
// omitted, and TLS references while TLS is disabled. The client certificates of spec.etcd.peerUrlTls and spec.backup.tls are
// also omitted, because no pod mounts them. A Secret that is needed twice appears twice.
func NeededSecrets(etcd *druidv1alpha1.Etcd) []SecretUse {
	uses := TLSSecrets(etcd)
	if store := etcd.Spec.Backup.Store; store != nil && store.SecretRef != nil && store.SecretRef.Name != "" {
		uses = append(uses, SecretUse{Name: store.SecretRef.Name, Field: field.NewPath("spec", "backup", "store", "secretRef").String()})
	}

	return uses
}

// TLSSecrets are the Secrets with certificates that pods need.
func TLSSecrets(etcd *druidv1alpha1.Etcd) []SecretUse {
	var uses []SecretUse

	spec := field.NewPath("spec")
	if tls := ClientTLS(etcd); tls != nil {
		path := spec.Child("etcd", "clientUrlTls")
		uses = append(uses, serverSecrets(*tls, path)...)
		uses = append(uses, certificateSecret(tls.ClientTLSSecretRef.Name, path.Child("clientTLSSecretRef")))
	}
	if tls := PeerTLS(etcd); tls != nil {
		uses = append(uses, serverSecrets(tls.TLSConfig, spec.Child("etcd", "peerUrlTls"))...)
	}
	if tls := BackupTLS(etcd); tls != nil && etcd.Spec.Backup.TLS != nil {
		uses = append(uses, serverSecrets(*tls, spec.Child("backup", "tls"))...)
	}

	return slices.DeleteFunc(uses, func(use SecretUse) bool { return use.Name == "" })
}

// ReferencedSecrets are the sorted, unique names of all Secrets in the spec. They include Secrets that no pod needs, since
// etcd-druid added its finalizer to them too.
func ReferencedSecrets(etcd *druidv1alpha1.Etcd) []string {
	var names []string

	refer := func(tls druidv1alpha1.TLSConfig) {
		names = append(names, tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name, tls.ClientTLSSecretRef.Name)
	}
	if tls := etcd.Spec.Etcd.ClientUrlTLS; tls != nil {
		refer(*tls)
	}
	if tls := etcd.Spec.Etcd.PeerUrlTLS; tls != nil {
		refer(tls.TLSConfig)
	}
	if tls := etcd.Spec.Backup.TLS; tls != nil {
		refer(*tls)
	}
	if store := etcd.Spec.Backup.Store; store != nil && store.SecretRef != nil {
		names = append(names, store.SecretRef.Name)
	}
	slices.Sort(names)

	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// serverSecrets are the Secrets of both ends of a connection: the CA and the server certificate.
func serverSecrets(tls druidv1alpha1.TLSConfig, path *field.Path) []SecretUse {
	return []SecretUse{caSecret(tls.TLSCASecretRef, path), certificateSecret(tls.ServerTLSSecretRef.Name, path.Child("serverTLSSecretRef"))}
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
