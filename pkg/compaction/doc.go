// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package compaction decides when a Job compacts the snapshots of an Etcd, and when a full snapshot replaces that Job.
//
// What may not live here: the manifest of the Job (see package component/compaction), clients, clocks (time is an argument), and all other I/O.
package compaction
