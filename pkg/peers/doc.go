// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package peers computes the peer TLS mode, the peer port and the peer URLs that members of a cluster can use now. A change of any of them
// must not separate members that cannot learn the new URLs of each other.
//
// What may not live here: plans and steps (see package planner), clients, clocks (time is an argument), and all other I/O.
package peers
