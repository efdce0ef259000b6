// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package history models the data of one Etcd: the writes that etcd has acknowledged, the databases of the members, and the backup
// store. All simulators use it.
//
// What may not live here: pods, members and their elections, and the decisions of the operator.
package history
