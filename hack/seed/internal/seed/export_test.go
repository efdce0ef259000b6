// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"os"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

// TryLock exports tryLock and NoProxy exports noProxy for tests.
func TryLock(path string) (*os.File, error) { return tryLock(path) }
func NoProxy() string                       { return noProxy(layout.Seed) }
