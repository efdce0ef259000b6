// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package resourcemanager runs gardener-resource-manager's own controllers in the operator's process, for clusters
// that have no gardener-resource-manager. It wires: how a ManagedResource is applied is Gardener's code, and nothing
// of ours may change it.
package resourcemanager
