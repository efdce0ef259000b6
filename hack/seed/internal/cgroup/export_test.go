// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package cgroup

// MissingControllers is private and has no effect on the machine.
func MissingControllers(delegated string) []string { return missingControllers(delegated) }

// WithShares is private and has no effect on the machine.
func WithShares(roots []string) (string, error) { return withShares(roots) }

// IgnoreGone is private and has no effect on the machine.
func IgnoreGone(err error) error { return ignoreGone(err) }

// Weight is private and has no effect on the machine.
func Weight(thread, share float64) int { return weight(thread, share) }
