// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

var (
	// SetMetrics is setMetrics.
	SetMetrics = setMetrics
	// CountJob is countJob.
	CountJob = countJob
)
