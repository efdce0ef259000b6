// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a CA that issues certificates for localhost, for servers and clients.
type Authority struct {
	// File contains the certificate of the CA.
	File string
	// Pool contains the certificate of the CA.
	Pool *x509.CertPool

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns a new CA.
func NewAuthority(t *testing.T) *Authority {
	t.Helper()

	a := &Authority{File: filepath.Join(t.TempDir(), "ca.crt"), Pool: x509.NewCertPool()}
	a.certificate = &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der := a.sign(t, a.certificate)

	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}

	a.certificate = certificate
	a.Pool.AddCert(certificate)
	writePEM(t, a.File, "CERTIFICATE", der)

	return a
}

// Issue writes a new certificate into the directory, and returns the files of certificate and key.
func (a *Authority) Issue(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()

	key := newKey(t)

	der, err := x509.CreateCertificate(rand.Reader, template(t, &x509.Certificate{
		DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}), a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}

	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writePEM(t, certFile, "CERTIFICATE", der)

	content, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	writePEM(t, keyFile, "PRIVATE KEY", content)

	return certFile, keyFile
}

// Serial returns the serial number of the certificate in the file.
func Serial(t *testing.T, certFile, keyFile string) string {
	t.Helper()

	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}

	return pair.Leaf.SerialNumber.String()
}

func (a *Authority) sign(t *testing.T, certificate *x509.Certificate) []byte {
	t.Helper()

	a.key = newKey(t)
	template(t, certificate)

	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}

	return der
}

// template sets the serial number and the validity.
func template(t *testing.T, certificate *x509.Certificate) *x509.Certificate {
	t.Helper()

	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		t.Fatal(err)
	}

	certificate.SerialNumber, certificate.NotBefore, certificate.NotAfter = serial, time.Now().Add(-time.Minute), time.Now().Add(time.Hour)

	return certificate
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	return key
}

func writePEM(t *testing.T, file, kind string, content []byte) {
	t.Helper()

	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
}
