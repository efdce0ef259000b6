// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/pki"
)

var _ = Describe("Ensure", func() {
	var dir string

	options := pki.Options{Server: "https://10.0.0.1:6443", ServerIPs: []string{"10.0.0.1"}, NodeIPs: map[string]string{"n1": "10.0.0.11"}}

	BeforeEach(func() {
		dir = filepath.Join(GinkgoT().TempDir(), "pki")
		Expect(pki.Ensure(dir, options)).To(Succeed())
	})

	DescribeTable("issues certificates that the CA has signed",
		func(name, subject, organization string, usage x509.ExtKeyUsage, host string) {
			certificate := read(filepath.Join(dir, name+".crt"))
			roots := x509.NewCertPool()
			roots.AddCert(read(filepath.Join(dir, "ca.crt")))

			_, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}, DNSName: host})
			Expect(err).NotTo(HaveOccurred())
			Expect(certificate.Subject.CommonName).To(Equal(subject))

			if organization != "" {
				Expect(certificate.Subject.Organization).To(ConsistOf(organization))
			}

			_, err = tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
			Expect(err).NotTo(HaveOccurred())
		},
		Entry("the API server with its address", "apiserver", "kube-apiserver", "", x509.ExtKeyUsageServerAuth, "10.0.0.1"),
		Entry("the API server with its name", "apiserver", "kube-apiserver", "", x509.ExtKeyUsageServerAuth, "kubernetes.default.svc"),
		Entry("the administrator", "admin", "admin", "system:masters", x509.ExtKeyUsageClientAuth, ""),
		Entry("a kubelet as a server", "kubelet-n1", "system:node:n1", "system:nodes", x509.ExtKeyUsageServerAuth, "10.0.0.11"),
		Entry("a kubelet as a client", "kubelet-n1", "system:node:n1", "system:nodes", x509.ExtKeyUsageClientAuth, ""),
	)

	It("writes valid kubeconfigs", func() {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Host).To(Equal("https://10.0.0.1:6443"))
		Expect(rest.TLSConfigFor(config)).NotTo(BeNil())
		Expect(config.CertData).To(Equal(content(filepath.Join(dir, "admin.crt"))))
	})

	It("keeps existing files", func() {
		authority, leaf := content(filepath.Join(dir, "ca.crt")), content(filepath.Join(dir, "resource-manager.crt"))
		Expect(pki.Ensure(dir, options)).To(Succeed())
		Expect(content(filepath.Join(dir, "ca.crt"))).To(Equal(authority))
		Expect(content(filepath.Join(dir, "resource-manager.crt"))).To(Equal(leaf))
	})

	It("issues a certificate again if its user has changed", func() {
		admin := content(filepath.Join(dir, "admin.crt"))
		for _, file := range []string{"scheduler.crt", "scheduler.key", "scheduler.kubeconfig"} {
			Expect(os.Rename(filepath.Join(dir, file), filepath.Join(dir, "resource-manager"+filepath.Ext(file)))).To(Succeed())
			Expect(os.WriteFile(filepath.Join(dir, file), content(filepath.Join(dir, "controller-manager"+filepath.Ext(file))), 0o600)).To(Succeed())
		}

		Expect(pki.Ensure(dir, options)).To(Succeed())
		for name, user := range map[string]string{"scheduler": "system:kube-scheduler", "resource-manager": "system:serviceaccount:garden:gardener-resource-manager"} {
			certificate := read(filepath.Join(dir, name+".crt"))
			Expect(certificate.Subject.CommonName).To(Equal(user))
			Expect(certificate.CheckSignatureFrom(read(filepath.Join(dir, "ca.crt")))).To(Succeed())
			config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, name+".kubeconfig"))
			Expect(err).NotTo(HaveOccurred())
			Expect(config.CertData).To(Equal(content(filepath.Join(dir, name+".crt"))))
		}
		Expect(content(filepath.Join(dir, "admin.crt"))).To(Equal(admin))
	})

	It("completes the files after an interrupted run", func() {
		authority := content(filepath.Join(dir, "ca.crt"))
		Expect(os.Remove(filepath.Join(dir, "admin.crt"))).To(Succeed())
		Expect(os.Remove(filepath.Join(dir, "admin.kubeconfig"))).To(Succeed())
		Expect(pki.Ensure(dir, options)).To(Succeed())
		Expect(content(filepath.Join(dir, "ca.crt"))).To(Equal(authority))
		Expect(content(filepath.Join(dir, "admin.kubeconfig"))).To(ContainSubstring(base64.StdEncoding.EncodeToString(content(filepath.Join(dir, "admin.crt")))))
	})

	It("issues certificates again that have expired, also those of a CA that has expired", func() {
		admin := content(filepath.Join(dir, "admin.crt"))
		key, err := keyutil.PrivateKeyFromFile(filepath.Join(dir, "ca.key"))
		Expect(err).NotTo(HaveOccurred())
		expired := read(filepath.Join(dir, "ca.crt"))
		expired.NotAfter = time.Now().Add(-time.Minute)
		der, err := x509.CreateCertificate(rand.Reader, expired, expired, expired.PublicKey, key)
		Expect(err).NotTo(HaveOccurred())
		Expect(cert.WriteCert(filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))).To(Succeed())
		expired = read(filepath.Join(dir, "admin.crt"))
		expired.NotAfter = time.Now().Add(-time.Minute)
		der, err = x509.CreateCertificate(rand.Reader, expired, read(filepath.Join(dir, "ca.crt")), expired.PublicKey, key)
		Expect(err).NotTo(HaveOccurred())
		Expect(cert.WriteCert(filepath.Join(dir, "admin.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))).To(Succeed())

		Expect(pki.Ensure(dir, options)).To(Succeed())
		Expect(read(filepath.Join(dir, "ca.crt")).NotAfter).To(BeTemporally(">", time.Now()))
		Expect(read(filepath.Join(dir, "admin.crt")).NotAfter).To(BeTemporally(">", time.Now()))
		Expect(content(filepath.Join(dir, "admin.crt"))).NotTo(Equal(admin))
	})

	It("issues a certificate again for another address of the API server", func() {
		Expect(pki.Ensure(dir, pki.Options{Server: options.Server, ServerIPs: []string{"10.0.0.2"}, NodeIPs: options.NodeIPs})).To(Succeed())
		Expect(read(filepath.Join(dir, "apiserver.crt")).VerifyHostname("10.0.0.2")).To(Succeed())
	})
})

func content(path string) []byte {
	GinkgoHelper()

	data, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())

	return data
}

func read(path string) *x509.Certificate {
	GinkgoHelper()

	block, _ := pem.Decode(content(path))
	Expect(block).NotTo(BeNil())

	certificate, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())

	return certificate
}
