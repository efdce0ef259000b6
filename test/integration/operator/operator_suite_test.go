// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestOperator(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Operator Suite")
}

// env is a cluster without Gardener. The suites chart and gardenlet test clusters with Gardener.
var env *environment.Environment

var _ = BeforeSuite(func() {
	env = environment.StartWithoutExtensions()
})
