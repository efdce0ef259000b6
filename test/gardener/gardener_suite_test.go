// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package gardener_test contains the tests on a landscape of Gardener: gardener-apiserver, gardener-controller-manager, a seed with gardenlet, and
// provider-local. `make test-gardener` starts it. Tests that need none of these programs belong in test/e2e.
package gardener_test

import (
	"os"
	"testing"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

const (
	// seedName is the name of the Seed and of the cluster of gardenlet.
	seedName = "local"
	// operatorName is the name of the ControllerRegistration, the ControllerDeployment and the Deployment of the operator.
	operatorName = "gardener-extension-etcd-druid"

	// pollInterval is the time between two attempts of an assertion that waits.
	pollInterval = time.Second
)

// garden is a client of the garden, seed one of the cluster of gardenlet.
var garden, seed client.Client

func TestGardener(t *testing.T) {
	RegisterFailHandler(Fail)
	logf.SetLogger(zap.New(zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyPollingInterval(pollInterval)
	format.MaxLength = 8000
	RunSpecs(t, "Gardener Suite")
}

var _ = BeforeSuite(func() {
	garden, seed = connect("GARDEN_KUBECONFIG", kubernetes.GardenScheme), connect("KUBECONFIG", kubernetes.SeedScheme)
})

func connect(variable string, scheme *runtime.Scheme) client.Client {
	GinkgoHelper()

	path := os.Getenv(variable)
	Expect(path).NotTo(BeEmpty(), "%s is not set; run the tests with `make test-gardener`", variable)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	Expect(err).NotTo(HaveOccurred())

	config.QPS, config.Burst = 100, 200
	connection, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	return connection
}
