// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package backupstore resolves the location of snapshots. It knows what a container with etcd-backup-restore needs to reach
// them: flags, environment, volume and mount of every provider. Sidecars, compaction Jobs and copy Jobs share it.
//
// What may not live here: clients, the contents of secrets, and the objects that the flags and volumes go into.
package backupstore
