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

var _ = Describe("Gardener knows the rest", func() {
	It("encrypts and backs up an Etcd of ten lines", SpecPriority(3), func(ctx SpecContext) {
		story := seed.Begin(ctx, "tenlines")
		story.Cluster(ctx, "", nil)
		entry := story.BackupEntry(ctx)

		manifest, err := os.ReadFile(filepath.Join("..", "..", "example", "35-etcd-gardener.yaml"))
		Expect(err).NotTo(HaveOccurred())
		etcd := &druidv1alpha1.Etcd{}
		Expect(yaml.UnmarshalStrict(manifest, etcd)).To(Succeed())
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		Expect(framework.Condition(etcd, "StoreResolved").Message).To(ContainSubstring(entry + "/main"))
		Expect(framework.Condition(etcd, "CertificatesValid").Reason).To(BeEquivalentTo("CertificatesValid"))

		By("serving whoever mounts the Secret for applications")
		ledger := story.Ledger(etcd)
		ledger.Write(ctx, 10)
		ledger.ExpectComplete(ctx)

		By("refusing plaintext and clients without a certificate")
		connection, err := story.Connection(ctx, etcd)
		Expect(err).NotTo(HaveOccurred())
		anonymous := &tls.Config{ServerName: connection.ServerName, RootCAs: connection.RootCAs, MinVersion: tls.VersionTLS12}
		Expect(ledger.TryWrite(ctx, nil)).NotTo(Succeed())
		Expect(ledger.TryWrite(ctx, anonymous)).NotTo(Succeed())
		Eventually(latestSnapshot).WithContext(ctx).WithArguments(story, etcd, anonymous).WithTimeout(framework.Soon).WithPolling(framework.Pause).
			Should(Equal(http.StatusOK), "the sidecar serves with TLS too")

		By("writing snapshots to the bucket of the entry")
		eventuallySnapshot(ctx, story, etcd, "main-full-snap", 0)
		Expect(filepath.Glob(filepath.Join(story.StoreDir(), entry, "main", "*", "Full-*"))).NotTo(BeEmpty())
	}, SpecTimeout(storyTimeout))

	It("leaves the certificates of a second Etcd alone when the first is deleted", func(ctx SpecContext) {
		story := seed.Begin(ctx, "neighbours")
		first, second := &druidv1alpha1.Etcd{}, &druidv1alpha1.Etcd{}
		for name, etcd := range map[string]*druidv1alpha1.Etcd{"first": first, "second": second} {
			etcd.Name, etcd.Spec.Labels, etcd.Spec.Replicas = name, map[string]string{"app": name}, 1
			story.Create(ctx, etcd)
		}
		story.EventuallyReady(ctx, first)
		story.EventuallyReady(ctx, second)
		pod := story.Pod(ctx, second)
		before, err := story.Connection(ctx, second)
		Expect(err).NotTo(HaveOccurred())

		Expect(story.Client.Delete(ctx, first)).To(Succeed())
		Eventually(func() bool { return story.IsGone(ctx, first) }).WithContext(ctx).WithTimeout(framework.Patience).WithPolling(framework.Pause).Should(BeTrue())

		Expect(story.Pod(ctx, second).UID).To(Equal(pod.UID))
		ledger := story.Ledger(second)
		ledger.TLS = before
		ledger.Write(ctx, 5)
		ledger.ExpectComplete(ctx)
	}, SpecTimeout(storyTimeout))
})
