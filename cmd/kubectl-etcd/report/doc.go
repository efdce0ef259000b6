// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package report converts the observation of an Etcd into plain data for a user. The plugin prints this data as text of 80
// columns, as JSON or as YAML.
//
// What may not live here: clients, clocks, and access to a terminal. The same facts give the same text.
package report
