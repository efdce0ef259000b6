// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// MissingSecrets says, one sentence each, which Secrets or which of their keys pods need and do not find. Empty: none.
func MissingSecrets(o Observation) []string {
	var missing []string
	for _, secret := range o.Secrets {
		for _, use := range secret.Uses {
			if sentence := missingFor(secret, use.Keys, use.AnyOf); sentence != "" {
				missing = append(missing, fmt.Sprintf("Secret %s, named by %s, %s", secret.Name, use.Field, sentence))
			}
		}
	}

	return missing
}

// TerminatingSecrets names the Secrets that pods need and that are being deleted, each with the fields that name it and with the
// remedy.
func TerminatingSecrets(o Observation) []string {
	var terminating []string
	for _, secret := range o.Secrets {
		if !secret.Deleting || len(secret.Uses) == 0 {
			continue
		}
		var fields []string
		for _, use := range secret.Uses {
			if !slices.Contains(fields, use.Field) {
				fields = append(fields, use.Field)
			}
		}
		terminating = append(terminating, fmt.Sprintf("Secret %s, named by %s, is being deleted and exists until nothing uses it: create a Secret with the same content and another name, and name it there",
			secret.Name, strings.Join(fields, " and ")))
	}

	return terminating
}

func missingFor(secret Secret, keys, anyOf []string) string {
	if !secret.Exists {
		return "does not exist"
	}
	for _, key := range keys {
		if !slices.Contains(secret.Keys, key) {
			return "has no key " + key
		}
	}
	if len(anyOf) > 0 && !slices.ContainsFunc(anyOf, func(key string) bool { return slices.Contains(secret.Keys, key) }) {
		return "has none of the keys " + strings.Join(anyOf, ", ")
	}

	return ""
}

// CAKey is the key of the CA in a Secret: the one that the reference names. Without such a name it is the first of
// bundle.crt and ca.crt that exists, else ca.crt.
func CAKey(ref druidv1alpha1.SecretReference, o Observation) string {
	if ref.DataKey != nil && *ref.DataKey != "" {
		return *ref.DataKey
	}
	for _, secret := range o.Secrets {
		if secret.Name == ref.Name && slices.Contains(secret.Keys, "bundle.crt") {
			return "bundle.crt"
		}
	}

	return "ca.crt"
}

// Secret is what is known about a Secret that pods need: never its content.
type Secret struct {
	// Name of the Secret.
	Name string
	// Uses say which fields of the spec need it, and which keys.
	Uses []helper.SecretUse
	// Exists is false when there is no such Secret.
	Exists bool
	// Deleting is true if the Secret has a deletion timestamp. It can still be mounted.
	Deleting bool
	// Keys are the names of its data keys, sorted.
	Keys []string
	// Certificates are the certificates in it, sorted by key. Those of one key are in the order of their content. Nil: it holds none.
	Certificates []Certificate
	// CertificateChecksums are the checksums of the certificates in it, by key. Keys without a certificate are absent.
	CertificateChecksums map[string]string
	// HasOtherKey is true if tls.key is not the private key of the certificate under tls.crt.
	HasOtherKey bool
}
