// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package care keeps the health of Etcds in their status: it observes, has the conditions computed, and patches the status
// when something changed.
//
// What may not live here: the computation of conditions, which is pure and lives in package conditions, and any other write
// than that of the status and of events.
package care
