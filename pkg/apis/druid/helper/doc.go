// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package helper derives properties of an Etcd: its names, its labels, its effective settings, and its canonical form without
// deprecated fields. Every function is pure and total.
//
// All functions except Canonical take an Etcd in its canonical form: call Canonical once, when an Etcd is read.
//
// What may not live here: clients, clocks, logs, and defaults that an operator can configure.
package helper
