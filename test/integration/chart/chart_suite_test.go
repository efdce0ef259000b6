// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package chart_test runs the operator with the configuration of the chart and only the permissions that the chart grants.
package chart_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gardener/gardener/pkg/logger"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

// operatorVariable is the environment variable with which the test binary runs the operator.
const operatorVariable = "CHART_TEST_RUNS_OPERATOR"

// TestMain runs the tests, or the operator like its command. The operator generates short keys, since others would take a third of the CPU time.
func TestMain(m *testing.M) {
	if os.Getenv(operatorVariable) == "" {
		os.Exit(m.Run())
	}
	environment.ShortenKeys()
	logf.SetLogger(logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON))
	if err := app.NewCommand(signals.SetupSignalHandler()).Execute(); err != nil {
		logf.Log.Error(err, "Operator failed")
		os.Exit(1)
	}
}

func TestChart(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Chart Suite")
}

var env *environment.Environment

// startCommand starts the operator in another process, with this environment and these arguments.
func startCommand(variables []string, args ...string) *gexec.Session {
	GinkgoHelper()
	program, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	command := exec.Command(program, args...) // #nosec G204 -- the test itself
	command.Env = slices.Concat(variables, []string{operatorVariable + "=true"})
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())

	return session
}

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)

	env = environment.Start()
	Expect(env.Client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}})).To(Succeed())
	crds := filepath.Join(environment.ModuleDirectory("github.com/gardener/gardener"), "example", "seed-crds")
	_, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{ErrorIfPathMissing: true, Paths: []string{
		filepath.Join(crds, "10-crd-autoscaling.k8s.io_verticalpodautoscalers.yaml"),
		filepath.Join(crds, "10-crd-monitoring.coreos.com_servicemonitors.yaml"),
		filepath.Join(crds, "10-crd-monitoring.coreos.com_prometheusrules.yaml"),
	}})
	Expect(err).NotTo(HaveOccurred())
})
