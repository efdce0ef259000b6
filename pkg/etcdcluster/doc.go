// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdcluster is the domain: what one look at an etcd cluster saw (Observation), the arithmetic of its quorum, and
// what follows for a spec (PlanFor). Everything is plain data and pure functions, so that each decision can be replayed.
//
// What may not live here: clients, clocks (time is an argument), logs, environment, and anything that reads or writes.
package etcdcluster
