// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdcluster holds the facts about one etcd cluster. It contains what an observation read from the API server and from the
// members, the members composed from it, and the quorum calculation. Everything is plain data and pure functions.
//
// What may not live here: decisions (see package planner), clients, clocks (time is an argument), logs, the environment, and all I/O.
package etcdcluster
