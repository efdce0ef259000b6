// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package resourcemanager runs the controllers of gardener-resource-manager in the process of the operator, for clusters
// without a gardener-resource-manager. It only sets them up: Gardener's code applies ManagedResources, and this package does
// not change how.
package resourcemanager
