// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package sidecar is the only door to the HTTP interface of etcd-backup-restore, which runs beside each member: snapshots on
// demand, and what the store holds. The package fake below it is a sidecar in memory behind the same door.
//
// What may not live here: decisions, and knowledge of Kubernetes objects.
package sidecar
