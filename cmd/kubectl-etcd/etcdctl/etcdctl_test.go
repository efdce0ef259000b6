// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdctl_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/etcdctl"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
)

var _ = Describe("Endpoint", func() {
	// serve shows a certificate, as a member does, and wants to see one too.
	serve := func(dnsNames []string, ips ...string) string {
		GinkgoHelper()
		ca, err := (&secretsutils.CertificateSecretConfig{Name: "ca", CommonName: "ca", CertType: secretsutils.CACert}).GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		config := &secretsutils.CertificateSecretConfig{Name: "server", CommonName: "etcd-server", CertType: secretsutils.ServerClientCert, SigningCA: ca, DNSNames: dnsNames}
		for _, ip := range ips {
			config.IPAddresses = append(config.IPAddresses, net.ParseIP(ip))
		}
		issued, err := config.GenerateCertificate()
		Expect(err).NotTo(HaveOccurred())
		pair, err := tls.X509KeyPair(issued.CertificatePEM, issued.PrivateKeyPEM)
		Expect(err).NotTo(HaveOccurred())
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12} // #nosec G402 -- so that a rejected client certificate ends the handshake
		server.StartTLS()
		DeferCleanup(server.Close)

		return server.Listener.Addr().String()
	}
	portOf := func(address string) string {
		GinkgoHelper()
		_, port, err := net.SplitHostPort(address)
		Expect(err).NotTo(HaveOccurred())

		return port
	}
	always := func(address string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return address, nil }
	}

	DescribeTable("has a host for which the member's certificate is valid", func(ctx SpecContext, host string, dnsNames []string, ips ...string) {
		member := serve(dnsNames, ips...)
		Expect(etcdctl.Endpoint(ctx, always(member), true)).To(Equal("https://" + host + ":" + portOf(member)))
	},
		Entry("one that gardenlet has issued", "127.0.0.1", []string{"etcd-main-local", "*.etcd-main-peer"}, "127.0.0.1", "::1"),
		Entry("one that the operator has issued", "127.0.0.1", []string{"localhost", "main-local"}, "127.0.0.1", "::1"),
		Entry("one of a PKI of its own, for names alone", "localhost", []string{"localhost", "main-local"}),
	)

	It("says for which names the certificate is valid where none leads here", func(ctx SpecContext) {
		_, err := etcdctl.Endpoint(ctx, always(serve([]string{"main-local", "main-client"})), true)
		Expect(err).To(MatchError(And(ContainSubstring("neither 127.0.0.1 nor localhost"), ContainSubstring("[main-local main-client]"))))
	})

	It("leaves it to etcdctl to report that the member is unreachable", func(ctx SpecContext) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		address := listener.Addr().String()
		Expect(listener.Close()).To(Succeed())
		Expect(etcdctl.Endpoint(ctx, always(address), true)).To(Equal("https://127.0.0.1:" + portOf(address)))
	})

	It("reads the certificate with a temporary connection, because the member closes it", func(ctx SpecContext) {
		member := serve([]string{"localhost"})
		var ways []context.Context
		open := func(ctx context.Context) (string, error) {
			ways = append(ways, ctx)
			if len(ways) == 1 {
				return member, nil
			}

			return "127.0.0.1:4711", nil
		}
		Expect(etcdctl.Endpoint(ctx, open, true)).To(Equal("https://localhost:4711"))
		Expect(ways).To(HaveLen(2))
		Expect(ways[0].Err()).To(HaveOccurred(), "that way is closed")
		Expect(ways[1].Err()).NotTo(HaveOccurred())
	})

	It("says why there is no way to a member", func(ctx SpecContext) {
		for _, secured := range []bool{true, false} {
			_, err := etcdctl.Endpoint(ctx, func(context.Context) (string, error) { return "", errors.New("no such pod") }, secured)
			Expect(err).To(MatchError("no such pod"))
		}
	})

	It("opens no connection without TLS", func(ctx SpecContext) {
		Expect(etcdctl.Endpoint(ctx, always("127.0.0.1:2379"), false)).To(Equal("http://127.0.0.1:2379"))
	})
})

var _ = Describe("WriteTLS", func() {
	It("writes what there is into files that no other user can read", func() {
		folder := GinkgoT().TempDir()
		environment, err := etcdctl.WriteTLS(folder, etcdclient.TLS{CA: []byte("ca"), Certificate: []byte("certificate"), Key: []byte("key")})
		Expect(err).NotTo(HaveOccurred())
		Expect(environment).To(Equal([]string{
			"ETCDCTL_CACERT=" + folder + "/ETCDCTL_CACERT", "ETCDCTL_CERT=" + folder + "/ETCDCTL_CERT", "ETCDCTL_KEY=" + folder + "/ETCDCTL_KEY",
		}))
		Expect(os.ReadFile(folder + "/ETCDCTL_KEY")).To(BeEquivalentTo("key"))
		info, err := os.Stat(folder + "/ETCDCTL_KEY")
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	})

	It("names no client certificate where members want none", func() {
		Expect(etcdctl.WriteTLS(GinkgoT().TempDir(), etcdclient.TLS{CA: []byte("ca")})).To(ConsistOf(HavePrefix("ETCDCTL_CACERT=")))
	})
})
