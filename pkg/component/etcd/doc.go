// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcd renders the objects of one Etcd. ValuesFor maps an Etcd, the plan and the defaults of the operator to Values.
// Objects renders the content of the ManagedResource from Values. MemberLeases and SnapshotLeases render the leases, which the
// controller writes itself, since the sidecar owns their specs. Each kind has its own file.
//
// What may not live here: clients, clocks, logs, the environment, and decisions when to render or how many members exist.
// Two calls with the same input return the same objects.
package etcd
