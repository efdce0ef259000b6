// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package report turns what was seen of an Etcd into what an operator reads: plain data that is printed as text of 80
// columns, or as JSON and YAML.
//
// What may not live here: clients, clocks, and access to a terminal. The same facts give the same text.
package report
