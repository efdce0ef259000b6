// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
)

var _ = DescribeTable("The webhooks", func(config string, delaysEvictions, registers bool, flags ...string) {
	dir := GinkgoT().TempDir()
	path, kubeconfig := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "kubeconfig")
	Expect(os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'https://localhost'}}]\n"), 0o600)).To(Succeed())
	Expect(os.WriteFile(path, []byte("apiVersion: config.druid.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\nleaderElection: {enabled: true}\n"+config), 0o600)).To(Succeed())
	options, set := app.NewOptions(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	options.AddFlags(set)
	Expect(set.Parse(append(flags, "--config="+path, "--kubeconfig="+kubeconfig))).To(Succeed())
	Expect(options.Complete()).To(Succeed())
	Expect(app.DelaysEvictions(options)).To(Equal(delaysEvictions))
	Expect(app.RegistersWebhooks(options)).To(Equal(registers))

	By("handing the Etcds back to etcd-druid")
	options.Config.Predecessor = configv1alpha1.PredecessorGiveBack
	Expect(app.DelaysEvictions(options)).To(BeFalse())
},
	Entry("delay evictions by default if the operator manages the certificate", managed, true, true),
	Entry("do not delay evictions if another component manages the certificate", protected, false, false),
	Entry("are both registered", managed+protected, true, true),
	Entry("do not delay evictions if this is disabled", managed+"webhooks: {eviction: {enabled: false}}\n", false, false),
	Entry("do not delay evictions without the controller that replaces the member", managed+protected, false, true, "--disable-controllers=etcd"),
)

const (
	managed   = "server: {webhooks: {managedCertificate: true}}\n"
	protected = "webhooks: {etcdComponentProtection: {enabled: true, serviceAccountInfo: {name: operator, namespace: own}}}\n"
)
