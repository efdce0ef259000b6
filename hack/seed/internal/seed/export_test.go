// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"os"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

// The functions export those of this package for tests.
func ImageVector(references map[string]string) ([]byte, error) { return imageVector(references) }
func IsArchive(value, path string) bool                        { return isArchive(value, path) }
func MissingImage(variable, reference, node string) error {
	return missingImage(variable, reference, node)
}

// Settings exports settings for tests.
func (s *Seed) Settings(file string) (map[string]any, error) { return s.settings(file) }

// TryLock exports tryLock and NoProxy exports noProxy for tests.
func TryLock(path string) (*os.File, error) { return tryLock(path) }
func NoProxy() string                       { return noProxy(layout.Seed) }
