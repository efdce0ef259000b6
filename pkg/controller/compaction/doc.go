// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package compaction is the controller that has the snapshots of Etcds compacted: it reads what there is, has
// etcdcluster.Compaction decide, and does the one thing that it says.
//
// What may not live here: decisions, and what the Job looks like.
package compaction
