// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package secrets decides which certificates of an Etcd the operator manages. It describes them for the secrets manager of
// Gardener: the identity, the configs with all names, and the stages of a CA rotation. It also returns the Etcd with all
// references filled in.
//
// What may not live here: clients, clocks, and the contents of secrets. The controller calls the secrets manager.
package secrets
