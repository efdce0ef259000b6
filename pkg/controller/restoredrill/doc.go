// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package restoredrill is the controller that schedules restore drills of Etcds and records what they find. It reads the cluster, calls
// drill.Input.Decide, and executes the returned action. EtcdOpsTasks run the drills.
//
// What may not live here: decisions, and the manifest of the Job.
package restoredrill
