// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package backupstore knows where snapshots can lie, and what a container that runs etcd-backup-restore needs to reach
// them: flags, environment, volume and mount of every provider. Sidecar, compaction and copying share it.
//
// What may not live here: clients, the contents of secrets, and the objects that the flags and volumes go into.
package backupstore
