// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package conditions computes what the status of an Etcd says about the cluster's health: one file a condition, each a pure
// function of what was observed and of the time.
//
// Messages name times and never ages, and only times that move when something has happened: a message that changes by itself
// would be a write for every look at an idle cluster.
//
// What may not live here: clients, clocks, logs, and decisions about what to do.
package conditions
