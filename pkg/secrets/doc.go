// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package secrets decides which certificates of an Etcd are provisioned, and describes them for Gardener's secrets manager:
// the identity under which they are managed, their configs with every name that they need, the steps of a rotation of
// their CAs, and the Etcd as it looks once its references are filled in.
//
// What may not live here: clients, clocks, and the contents of secrets. Generating is one call in the controller.
package secrets
