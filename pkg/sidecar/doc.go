// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package sidecar is the client of the HTTP API of etcd-backup-restore, which runs as the sidecar of each member. The API
// takes on-demand snapshots and lists the newest snapshots of the store. No other package uses this API. The package fake
// implements the same client in memory.
//
// What may not live here: decisions, and knowledge of Kubernetes objects.
package sidecar
