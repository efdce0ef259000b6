// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package state holds the durable record of the operator about one Etcd. The record is stored on the ManagedResource of the Etcd. The
// package reads and writes its persisted form. Names and values in that form never change without a reader for the previous ones.
//
// What may not live here: decisions, facts that were not persisted, clients, clocks, and all other I/O.
package state
