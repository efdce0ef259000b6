// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package rules_test lets Prometheus itself evaluate the alerts of the chart over series that are made up here. It is a module of
// its own because Prometheus needs other versions of what the operator is built from.
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
