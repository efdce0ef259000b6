// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package rollouts grants the updates of Etcds to new defaults of the operator. One loop in the leader decides for all Etcds with package rollout. The
// controller of Etcds uses the grants, and records the updates.
//
// What may not live here: the rules (see package rollout), and writes to the API server.
package rollouts
