// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build

// Prune is private: only a build that has succeeded may call it.
func (b Builder) Prune(dir string, m Module, keep string) { b.prune(dir, m, keep) }
