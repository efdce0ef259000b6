// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// validateTLS rejects references without a valid name. Package secrets decides about missing references, since the operator can
// issue certificates.
func validateTLS(etcd *druidv1alpha1.Etcd, spec *field.Path) field.ErrorList {
	clientPath, peerPath, backupPath := spec.Child("etcd", "clientUrlTls"), spec.Child("etcd", "peerUrlTls"), spec.Child("backup", "tls")
	client, peer := helper.ClientTLS(etcd), helper.PeerTLS(etcd)

	var errs field.ErrorList
	if client != nil {
		errs = append(errs, validateReferences(*client, clientPath)...)
		errs = append(errs, validateReference(client.ClientTLSSecretRef.Name, clientPath.Child("clientTLSSecretRef"))...)
	}
	if peer != nil {
		errs = append(errs, validateReferences(peer.TLSConfig, peerPath)...)
	}
	if backup := helper.BackupTLS(etcd); backup != nil && backup != client {
		errs = append(errs, validateReferences(*backup, backupPath)...)
	}

	return errs
}

func validateReferences(tls druidv1alpha1.TLSConfig, path *field.Path) field.ErrorList {
	return append(
		append(validateReference(tls.TLSCASecretRef.Name, path.Child("tlsCASecretRef")), validateDataKey(tls.TLSCASecretRef.DataKey, path.Child("tlsCASecretRef"))...),
		validateReference(tls.ServerTLSSecretRef.Name, path.Child("serverTLSSecretRef"))...,
	)
}

func validateReference(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path.Child("name"), "name the Secret, or set spec.etcd.enableTLS to false to disable TLS")}
	}

	return validateSecretName(name, path)
}

// validateSecretName rejects a name that no Secret can have.
func validateSecretName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path.Child("name"), name, "no Secret can have this name: "+message))
	}

	return errs
}

// validateDataKey rejects a key that no Secret can have.
func validateDataKey(key *string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ptr.Deref(key, "") != "" {
		for _, message := range validation.IsConfigMapKey(*key) {
			errs = append(errs, field.Invalid(path.Child("dataKey"), *key, "no Secret can have this key: "+message))
		}
	}

	return errs
}
