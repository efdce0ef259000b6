// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package secret is the controller of the finalizers of Secrets. A Secret that an Etcd or a running copy uses cannot be deleted
// before its last use has ended.
//
// What may not live here: the rules (pkg/secrets/protection.go), and the Secrets that the operator issues (pkg/controller/etcd).
package secret
