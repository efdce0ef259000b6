// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package rollout limits how many Etcds change to new defaults of the operator at once. It decides from the records of all Etcds, and keeps no record
// of its own. docs/concepts/decisions/14-limited-rollouts.md contains the rules.
//
// What may not live here: clients, clocks, and the order of pods in one cluster (see package planner).
package rollout
