// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"crypto/tls"
	"crypto/x509"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Authority is a CA of a test.
type Authority struct {
	certificate *secretsutils.Certificate
}

// NewAuthority creates a CA.
func NewAuthority(name string) Authority {
	GinkgoHelper()

	return Authority{generate(&secretsutils.CertificateSecretConfig{Name: name, CommonName: name, CertType: secretsutils.CACert})}
}

// Bundle returns a Secret with the CA's certificate under the key ca.crt.
func (a Authority) Bundle(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"ca.crt": a.certificate.CertificatePEM}}
}

// Server returns a Secret with a certificate for servers with these names. The certificate is also valid for clients, because
// the members are clients of each other.
func (a Authority) Server(name string, dnsNames ...string) *corev1.Secret {
	GinkgoHelper()

	return certificateSecret(name, generate(&secretsutils.CertificateSecretConfig{
		Name: name, CommonName: name, DNSNames: dnsNames, CertType: secretsutils.ServerClientCert, SigningCA: a.certificate,
	}))
}

// Client returns a Secret with a certificate for clients.
func (a Authority) Client(name string) *corev1.Secret {
	GinkgoHelper()

	return certificateSecret(name, generate(&secretsutils.CertificateSecretConfig{
		Name: name, CommonName: name, CertType: secretsutils.ClientCert, SigningCA: a.certificate,
	}))
}

// ClientConfig returns the configuration of a client that trusts the CA and expects this server name. It has no client
// certificate.
func (a Authority) ClientConfig(serverName string) *tls.Config {
	GinkgoHelper()

	pool := x509.NewCertPool()
	Expect(pool.AppendCertsFromPEM(a.certificate.CertificatePEM)).To(BeTrue())

	return &tls.Config{RootCAs: pool, ServerName: serverName, MinVersion: tls.VersionTLS12}
}

// WithCertificate returns a copy of the configuration with the client certificate of the Secret.
func WithCertificate(config *tls.Config, secret *corev1.Secret) *tls.Config {
	GinkgoHelper()

	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	Expect(err).NotTo(HaveOccurred())

	config = config.Clone()
	config.Certificates = []tls.Certificate{pair}

	return config
}

// ServerNames returns the DNS names of a member of the Etcd and of its sidecar for clients.
func ServerNames(etcd, namespace string) []string {
	names := []string{etcd + "-local"}
	for _, host := range []string{etcd + "-client", "*." + etcd + "-peer"} {
		names = append(names, host, host+"."+namespace, host+"."+namespace+".svc", host+"."+namespace+".svc.cluster.local")
	}

	return names
}

// PeerNames returns the DNS names of a member of the Etcd for its peers.
func PeerNames(etcd, namespace string) []string {
	var names []string
	for _, host := range []string{etcd + "-peer", "*." + etcd + "-peer"} {
		names = append(names, host, host+"."+namespace, host+"."+namespace+".svc", host+"."+namespace+".svc.cluster.local")
	}

	return names
}

func generate(config *secretsutils.CertificateSecretConfig) *secretsutils.Certificate {
	GinkgoHelper()

	certificate, err := config.GenerateCertificate()
	Expect(err).NotTo(HaveOccurred())

	return certificate
}

func certificateSecret(name string, certificate *secretsutils.Certificate) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: certificate.CertificatePEM, corev1.TLSPrivateKeyKey: certificate.PrivateKeyPEM},
	}
}
