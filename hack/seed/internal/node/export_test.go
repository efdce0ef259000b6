// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package node

import "github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"

// IsShim exports isShim for tests.
var IsShim = isShim

// WriteFiles exports writeFiles for tests. EnsureRuntime calls it before it starts what reads the files.
func WriteFiles(l layout.Layout, n layout.Node) error { return writeFiles(l, n) }
