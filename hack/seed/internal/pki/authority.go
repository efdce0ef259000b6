// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates and kubeconfigs of the seed. It writes files into one folder and reads nothing else.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// lifetime of every certificate. A seed is younger than that.
const lifetime = 10 * 365 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	// PEM is the authority's certificate.
	PEM []byte
}

// Request describes one certificate.
type Request struct {
	CommonName    string
	Organizations []string
	// Names and IPs make it a server certificate; without any it is for clients only.
	Names []string
	IPs   []string
	// Client allows a server certificate to be used by a client as well.
	Client bool
}

// Pair is a certificate with its key, both PEM.
type Pair struct{ Certificate, Key []byte }

// NewAuthority makes a self-signed authority.
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
		return nil, Pair{}, fmt.Errorf("making the authority %s: %w", commonName, err)
	}

	return &Authority{certificate: certificate, key: key, PEM: pair.Certificate}, pair, nil
}

// Issue makes and signs a certificate with a key of its own.
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
		NotBefore:    now.Add(-time.Hour), // tolerates a clock that is set back
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
