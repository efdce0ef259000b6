// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package drill decides when a restore drill of an Etcd runs, and what its Job has found. A drill proves that the snapshots in the backup store
// contain what the cluster contains, and that the sidecar restores them.
//
// What may not live here: clients, clocks, and the manifest of the Job.
package drill
