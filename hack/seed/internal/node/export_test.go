// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package node

import "github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"

// IsShim is exported to its test.
var IsShim = isShim

// WriteFiles is private: EnsureRuntime calls it before what reads the files.
func WriteFiles(l layout.Layout, n layout.Node) error { return writeFiles(l, n) }
