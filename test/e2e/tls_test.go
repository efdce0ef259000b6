// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("An Etcd with user-provided certificates", func() {
	It("starts when its Secrets exist, and accepts only clients that use TLS and have a certificate", gate, SpecPriority(3), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "tls")
		clients, peers, backups := framework.NewAuthority("e2e-clients"), framework.NewAuthority("e2e-peers"), framework.NewAuthority("e2e-backups")
		certificate := clients.Client("client-client")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithTLS(), withLocalStore(ns))
		ns.Create(ctx, etcd)

		By("reporting each missing Secret and the field that references it, without creating an object")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			condition := framework.Condition(etcd, "SecretsValid")
			g.Expect(condition.Status).To(BeEquivalentTo("False"))
			for name, field := range map[string]string{
				"client-ca": "spec.etcd.clientUrlTls.tlsCASecretRef", "client-server": "spec.etcd.clientUrlTls.serverTLSSecretRef", "client-client": "spec.etcd.clientUrlTls.clientTLSSecretRef",
				"peer-ca": "spec.etcd.peerUrlTls.tlsCASecretRef", "peer-server": "spec.etcd.peerUrlTls.serverTLSSecretRef",
				"backup-ca": "spec.backup.tls.tlsCASecretRef", "backup-server": "spec.backup.tls.serverTLSSecretRef",
			} {
				g.Expect(condition.Message).To(ContainSubstring("Secret " + name + ", named by " + field + ", does not exist"))
			}
		})
		Expect(objectsIn(ctx, ns)).To(BeEmpty())

		By("creating the Secrets")
		ns.Create(ctx,
			clients.Bundle("client-ca"), clients.Server("client-server", framework.ServerNames("main", ns.Name)...), certificate,
			peers.Bundle("peer-ca"), peers.Server("peer-server", framework.PeerNames("main", ns.Name)...),
			backups.Bundle("backup-ca"), backups.Server("backup-server", framework.ServerNames("main", ns.Name)...), backups.Client("backup-client"),
		)
		ns.EventuallyReady(ctx, etcd)
		Expect(framework.Condition(etcd, "SecretsValid").Status).To(BeEquivalentTo("True"))

		By("connecting with a client certificate")
		writeLog := ns.NewWriteLog(etcd)
		withoutCertificate := clients.ClientConfig("main-client")
		writeLog.TLS = framework.WithCertificate(withoutCertificate, certificate)
		writeLog.Write(ctx, 10)
		writeLog.ExpectComplete(ctx)

		By("connecting without TLS, without a client certificate, and with another CA")
		Expect(writeLog.TryWrite(ctx, nil)).NotTo(Succeed(), "without TLS")
		Expect(writeLog.TryWrite(ctx, withoutCertificate)).NotTo(Succeed(), "without a client certificate")
		Expect(writeLog.TryWrite(ctx, framework.WithCertificate(backups.ClientConfig("main-client"), certificate))).NotTo(Succeed(), "with another CA")

		By("connecting to the sidecar, which has its own certificate")
		Eventually(latestSnapshot).WithContext(ctx).WithArguments(ns, etcd, backups.ClientConfig("main-client")).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Equal(http.StatusOK))
		_, err := latestSnapshot(ctx, ns, etcd, clients.ClientConfig("main-client"))
		Expect(err).To(MatchError(ContainSubstring("certificate")))

		By("taking snapshots")
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0)

		By("renewing the client certificate in place, which restarts the member, because etcd-wrapper reads the certificate once")
		before, renewed := ns.Pod(ctx, etcd).UID, clients.Client("client-client")
		secret := &corev1.Secret{}
		Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: renewed.Name}, secret)).To(Succeed())
		patched := secret.DeepCopy()
		patched.Data = renewed.Data
		Expect(ns.Client.Patch(ctx, patched, client.MergeFrom(secret))).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			pod, found := ns.FindPod(ctx, etcd)
			g.Expect(found && pod.UID != before).To(BeTrue())
			g.Expect(framework.CheckReady(etcd)).To(Succeed())
		})
		writeLog.TLS = framework.WithCertificate(withoutCertificate, renewed)
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})

// latestSnapshot requests the latest snapshot from the sidecar and returns the HTTP status code.
func latestSnapshot(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, config *tls.Config) (int, error) {
	GinkgoHelper()

	return requestSidecar(ctx, ns, etcd, config, "/snapshot/latest")
}

// requestSidecar sends a request to the sidecar of the first member with this client configuration, and returns the
// HTTP status code. The sidecar rejects requests while it does not know the leader or while its snapshotter is not
// active. Both may happen shortly after the member is ready.
func requestSidecar(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, config *tls.Config, path string) (int, error) {
	GinkgoHelper()

	url := "https://" + net.JoinHostPort(ns.Pod(ctx, etcd).Status.PodIP, "8080") + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	Expect(err).NotTo(HaveOccurred())

	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()

	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return 0, err
	}

	return response.StatusCode, response.Body.Close()
}
