// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build

// Prune exports prune for tests. Only a successful build may call it.
func (b Builder) Prune(dir string, m Module, keep string) { b.prune(dir, m, keep) }
