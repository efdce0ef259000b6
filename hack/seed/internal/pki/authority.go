// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package pki creates the certificates and kubeconfigs of the seed in one directory.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is the validity of every certificate. No seed runs longer.
const lifetime = 10 * 365 * 24 * time.Hour

// Authority is a CA that signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	// PEM is the certificate of the CA.
	PEM []byte
}

// Request describes a certificate.
type Request struct {
	CommonName    string
	Organizations []string
	// Names and IPs are the names of a server certificate. Without any the certificate is for clients only.
	Names []string
	IPs   []string
	// Client allows clients to use a server certificate.
	Client bool
}

// Pair is a certificate with its key in PEM format.
type Pair struct{ Certificate, Key []byte }

// NewAuthority creates a self-signed CA.
func NewAuthority(commonName string) (*Authority, Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, Pair{}, err
	}

	template := unsigned(pkix.Name{CommonName: commonName})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature

	pair, certificate, err := sign(template, template, key, key)
	if err != nil {
		return nil, Pair{}, fmt.Errorf("creating the CA %s: %w", commonName, err)
	}

	return &Authority{certificate: certificate, key: key, PEM: pair.Certificate}, pair, nil
}

// readAuthority reads a CA that Pair.write wrote.
func readAuthority(dir, name string) (*Authority, error) {
	path := filepath.Join(dir, name+".crt")

	pair, err := tls.LoadX509KeyPair(path, filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}

	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key of %s cannot sign", path)
	}

	content, err := os.ReadFile(path)

	return &Authority{certificate: pair.Leaf, key: key, PEM: content}, err
}

func readCertificate(path string) (*x509.Certificate, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s contains no certificate", path)
	}

	return x509.ParseCertificate(block.Bytes)
}

// Issue creates a key and signs a certificate for it.
func (a *Authority) Issue(r Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}

	template := unsigned(pkix.Name{CommonName: r.CommonName, Organization: r.Organizations})
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	template.DNSNames = r.Names

	for _, ip := range r.IPs {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}

	server := len(r.Names)+len(r.IPs) > 0
	if server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}

	if !server || r.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}

	pair, _, err := sign(template, a.certificate, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issuing %s: %w", r.CommonName, err)
	}

	return pair, nil
}

func unsigned(subject pkix.Name) *x509.Certificate {
	now := time.Now()

	return &x509.Certificate{
		SerialNumber: new(big.Int).SetInt64(now.UnixNano()),
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // allows for a clock that is set back
		NotAfter:     now.Add(lifetime),
	}
}

func sign(template, parent *x509.Certificate, key, parentKey crypto.Signer) (Pair, *x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return Pair{}, nil, err
	}

	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, nil, err
	}

	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, nil, err
	}

	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, certificate, nil
}

func (p Pair) write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.Certificate, 0o644); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600)
}
