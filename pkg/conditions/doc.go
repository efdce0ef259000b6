// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package conditions computes the health of a cluster that the status of an Etcd reports. Each condition has one file with a
// pure function of the observation and the time.
//
// Messages have times and never ages. A time changes only with an event in the cluster. A message that changes by itself would
// cause a write for each reconciliation of an idle cluster.
//
// What may not live here: clients, clocks, logs, and decisions about actions.
package conditions
