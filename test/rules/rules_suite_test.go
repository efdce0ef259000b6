// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package rules_test evaluates the alerts of the chart with the rule engine of Prometheus, over synthetic series. It is a separate Go
// module because Prometheus requires other versions of shared dependencies than the operator.
//
// What may not live here: how the chart renders, which charts/ tests, and what the operator measures, which pkg/metrics tests.
package rules_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestRules(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Rules Suite")
}
