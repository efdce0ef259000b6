// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package evidence derives from observations what a quorum of the members has confirmed about the data of a cluster. This is its highest
// revision and its voting members. The package also compares a later observation with that record.
//
// What may not live here: plans and conditions, clients, clocks (time is an argument), and all other I/O.
package evidence
