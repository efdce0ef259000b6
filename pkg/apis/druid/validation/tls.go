// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// validateTLS finds TLS that is asked for and cannot be had, and references without a name.
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

	if enableTLS := etcd.Spec.Etcd.EnableTLS; enableTLS != nil && *enableTLS {
		errs = append(errs, validateProvided(client != nil, clientPath)...)
		errs = append(errs, validateProvided(peer != nil, peerPath)...)
	} else if neverRan := etcd.Status.ObservedGeneration == nil; neverRan && client == nil && helper.BackupTLS(etcd) != nil {
		errs = append(errs, field.Required(clientPath, backupPath.String()+" is set, and etcd and its sidecar must both serve with TLS, or neither"))
	}

	return errs
}

// validateProvided refuses a part that spec.etcd.enableTLS asks for and the spec has no references for.
func validateProvided(provided bool, path *field.Path) field.ErrorList {
	if provided {
		return nil
	}

	return field.ErrorList{field.Required(path, "spec.etcd.enableTLS is true, and this version issues no certificates: name the Secrets, or set spec.etcd.enableTLS to false")}
}

func validateReferences(tls druidv1alpha1.TLSConfig, path *field.Path) field.ErrorList {
	return append(
		validateReference(tls.TLSCASecretRef.Name, path.Child("tlsCASecretRef")),
		validateReference(tls.ServerTLSSecretRef.Name, path.Child("serverTLSSecretRef"))...,
	)
}

func validateReference(name string, path *field.Path) field.ErrorList {
	if name != "" {
		return nil
	}

	return field.ErrorList{field.Required(path.Child("name"), "name the Secret, or set spec.etcd.enableTLS to false to serve without TLS")}
}
