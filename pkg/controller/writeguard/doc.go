// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package writeguard slows down a controller that repeatedly writes to the API server, or repeatedly gets a conflict, without
// effect. It delays reconciliations, and decides nothing about a cluster. Its state is in memory only.
//
// What may not live here: what an observation is, and the reports of the controller.
package writeguard
