// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package conventions_test checks the files that repositories of Gardener have in common: licenses, owners, updates of dependencies and
// the component descriptor. `make check` lints the workflows with actionlint.
package conventions_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestConventions(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Hack Conventions Suite")
}
