// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package planner decides what the operator does next for one Etcd. For returns the Plan for a spec and an Observation. Gate compares
// that Plan with the applied rendering, and decides whether its step is due. Every decision is a pure function: the same arguments
// give the same Plan.
//
// What may not live here: clients, clocks (time is an argument), logs, the environment, rendered objects, and all other I/O.
package planner
