// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"strings"

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

// CAKey is the key of the CA in a Secret: the one that the reference names, else the first of bundle.crt and ca.crt that
// exists, else ca.crt.
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
