// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package compaction is the controller that compacts the snapshots of Etcds. It reads the cluster, calls
// compaction.Input.Decide, and executes the returned action.
//
// What may not live here: decisions, and the manifest of the Job.
package compaction
