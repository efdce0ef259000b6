// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// RecordFor returns the record of a store for the ManagedResource.
func RecordFor(store Store) state.Store {
	return state.Store{
		Provider: string(store.Provider), Container: store.Container, Prefix: store.Prefix, HostPath: store.HostPath, SecretName: store.SecretName,
		Endpoint: store.Identity.Endpoint, Account: store.Identity.Account,
	}
}

// IsLocationOf is true if the store is at the recorded location, regardless of its credentials. It ignores the directory if
// either one is empty. It ignores endpoint and account: a user may correct them to reach the same store again.
func IsLocationOf(p state.Store, store Store) bool {
	isDirectory := p.HostPath == "" || store.HostPath == "" || p.HostPath == store.HostPath

	return p.Provider == string(store.Provider) && p.Container == store.Container && p.Prefix == store.Prefix && isDirectory
}
