// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

var _ = Describe("In the namespace of a shoot, the operator", func() {
	It("configures TLS and backups of an Etcd with ten lines", SpecPriority(3), framework.NeedsSeed("runs the provider extension on the directory of the Local store"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "tenlines")
		ns.ApplyCluster(ctx, "", nil)
		entry := ns.CreateBackupEntry(ctx)

		manifest, err := os.ReadFile(filepath.Join("..", "..", "example", "35-etcd-gardener.yaml"))
		Expect(err).NotTo(HaveOccurred())
		etcd := &druidv1alpha1.Etcd{}
		Expect(yaml.UnmarshalStrict(manifest, etcd)).To(Succeed())
		etcd.Spec.Backup.Store.Prefix = entry + "/main" // gardener-resource-manager rejects an empty prefix
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		Expect(framework.Condition(etcd, "StoreResolved").Message).To(ContainSubstring(entry + "/main"))
		Expect(framework.Condition(etcd, "CertificatesValid").Reason).To(BeEquivalentTo("CertificatesValid"))

		By("connecting with the credentials of the connection Secret")
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 10)
		writeLog.ExpectComplete(ctx)

		By("connecting in plaintext and without a client certificate")
		connection, err := ns.Connection(ctx, etcd)
		Expect(err).NotTo(HaveOccurred())
		anonymous := &tls.Config{ServerName: connection.ServerName, RootCAs: connection.RootCAs, MinVersion: tls.VersionTLS12}
		Expect(writeLog.TryWrite(ctx, nil)).NotTo(Succeed())
		Expect(writeLog.TryWrite(ctx, anonymous)).NotTo(Succeed())
		Eventually(latestSnapshot).WithContext(ctx).WithArguments(ns, etcd, anonymous).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).
			Should(Equal(http.StatusOK), "the sidecar uses TLS too")

		By("waiting for a snapshot in the bucket of the BackupEntry")
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0)
		Expect(filepath.Glob(filepath.Join(ns.StoreDir(), entry, "main", "*", "Full-*"))).NotTo(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("keeps the certificates of a second Etcd when the first Etcd is deleted", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "neighbours")
		first, second := &druidv1alpha1.Etcd{}, &druidv1alpha1.Etcd{}
		for name, etcd := range map[string]*druidv1alpha1.Etcd{"first": first, "second": second} {
			etcd.Name, etcd.Spec.Labels, etcd.Spec.Replicas = name, map[string]string{"app": name}, 1
			ns.Create(ctx, etcd)
		}
		ns.EventuallyReady(ctx, first)
		ns.EventuallyReady(ctx, second)
		pod := ns.Pod(ctx, second)
		before, err := ns.Connection(ctx, second)
		Expect(err).NotTo(HaveOccurred())

		Expect(ns.Client.Delete(ctx, first)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, first) }).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue())

		Expect(ns.Pod(ctx, second).UID).To(Equal(pod.UID))
		writeLog := ns.NewWriteLog(second)
		writeLog.TLS = before
		writeLog.Write(ctx, 5)
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})
