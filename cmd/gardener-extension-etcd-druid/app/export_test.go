// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

// AccountsFor is accountsFor.
var AccountsFor = accountsFor

// DefaultEtcdVersion is defaultEtcdVersion.
var DefaultEtcdVersion = defaultEtcdVersion

// EtcdHelper is etcdHelper.
var EtcdHelper = etcdHelper

// ExistingNamespaces is existingNamespaces.
var ExistingNamespaces = existingNamespaces

// DelaysEvictions is delaysEvictions.
var DelaysEvictions = (*Options).delaysEvictions

// RegistersWebhooks is registersWebhooks.
var RegistersWebhooks = (*Options).registersWebhooks

// ReleaseSecrets is releaseSecrets.
var ReleaseSecrets = releaseSecrets

// LimitMemory is limitMemory.
var LimitMemory = limitMemory
