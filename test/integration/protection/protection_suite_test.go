// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package protection_test tests with a real API server which users may change or delete the objects of an Etcd. It uses the admission
// policies of the chart and the webhooks of the operator.
package protection_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestProtection(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Protection Suite")
}

var env *environment.Environment

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	// The API server discovers the CustomResourceDefinition of the policies within half a minute.
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)

	env = environment.Start()
})
