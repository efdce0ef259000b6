// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package writeguard stops a controller that writes to the API server, or is refused by it with a conflict, again and again without
// effect. It is a safety brake: it delays reconciliations, and decides nothing about a cluster. Its memory ends with the process.
//
// What may not live here: what counts as an observation, and what the controller reports, which are the controller's.
package writeguard
