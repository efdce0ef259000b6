// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package care is the controller that reports the health of Etcds in their status. It observes the cluster, computes the
// conditions, and patches the status if something changed. It also records the evidence of a quorum on the ManagedResource.
//
// What may not live here: the computation of conditions, see package conditions, and that of the evidence, see package evidence. It
// writes nothing else.
package care
