// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcd renders the objects of one Etcd. ValuesFor maps an Etcd, the plan and the operator's defaults to Values;
// Objects turns Values into what the ManagedResource holds; MemberLeases and SnapshotLeases turn them into what the
// controller writes itself, because the sidecar owns the specs of leases. There is one file a kind.
//
// What may not live here: clients, clocks, logs, the environment, decisions about when something is rendered or how many
// members there are, and anything that differs between two calls with the same input.
package etcd
