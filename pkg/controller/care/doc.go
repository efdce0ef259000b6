// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package care is the controller that reports the health of Etcds in their status. It observes the cluster, computes the
// conditions, and patches the status if something changed.
//
// What may not live here: the computation of conditions, which is in package conditions, and writes except those of the status
// and of events.
package care
