// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package chart_test runs the binary of the operator with the configuration of the chart and only the permissions that the chart grants.
package chart_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

func TestChart(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Integration Chart Suite")
}

var (
	env    *environment.Environment
	binary string
)

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)

	var err error
	binary, err = gexec.Build("github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)

	env = environment.Start()
	Expect(env.Client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}})).To(Succeed())
	crds := filepath.Join(environment.ModuleDirectory("github.com/gardener/gardener"), "example", "seed-crds")
	_, err = envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{ErrorIfPathMissing: true, Paths: []string{
		filepath.Join(crds, "10-crd-autoscaling.k8s.io_verticalpodautoscalers.yaml"),
		filepath.Join(crds, "10-crd-monitoring.coreos.com_servicemonitors.yaml"),
		filepath.Join(crds, "10-crd-monitoring.coreos.com_prometheusrules.yaml"),
	}})
	Expect(err).NotTo(HaveOccurred())
})
