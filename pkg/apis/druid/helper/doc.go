// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package helper answers questions about an Etcd: its names, its labels, its effective settings, and the current form of
// an older manifest. Every function is pure and total.
//
// All functions but Canonical take an Etcd in its canonical form: call Canonical once, where an Etcd enters the program.
//
// What may not live here: clients, clocks, logs, and defaults that an operator can configure.
package helper
