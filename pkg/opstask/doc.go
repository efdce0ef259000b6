// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package opstask decides the order, the attempts and the result of EtcdOpsTasks, and the order in which members are defragmented.
//
// What may not live here: calls to members or sidecars (see package controller/opstask), clients, clocks (time is an argument), and all
// other I/O.
package opstask
