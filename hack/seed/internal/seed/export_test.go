// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"os"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

// TryLock is private because callers must wait, and NoProxy because it matters in this process only.
func TryLock(path string) (*os.File, error) { return tryLock(path) }
func NoProxy() string                       { return noProxy(layout.Seed) }
