// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package pki creates the certificates and kubeconfigs of the seed in one directory. It may not import Gardener's package secrets. This package
// imports 820 others, more than three times as many as this tool.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// lifetime is the validity of the certificates. The CAs have the same.
const lifetime = 10 * 365 * 24 * time.Hour

// Options describe the API server and the nodes in the certificates.
type Options struct {
	// Server is the URL of the API server in every kubeconfig.
	Server string
	// ServerIPs are the addresses of the API server in addition to the loopback address.
	ServerIPs []string
	// NodeIPs maps the names of the nodes to their addresses.
	NodeIPs map[string]string
}

// Ensure creates the files in dir that do not exist. It replaces a certificate that has expired, that its CA has not signed, or whose subject
// or names are not those of the options. Each certificate gets a kubeconfig, though not all need it.
func Ensure(dir string, o Options) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the directory of the certificates: %w", err)
	}

	if _, err := keyOf(dir, "service-account"); err != nil {
		return fmt.Errorf("creating the key of ServiceAccounts: %w", err)
	}

	for authority, configs := range map[string]map[string]cert.Config{
		"ca":             configs(o),
		"front-proxy-ca": {"front-proxy-client": {CommonName: "front-proxy-client", Usages: clientOnly}},
	} {
		ca, err := ensureAuthority(dir, authority)
		if err != nil {
			return fmt.Errorf("creating the CA %s: %w", authority, err)
		}

		for name, config := range configs {
			if err := ca.ensure(dir, name, config, o.Server); err != nil {
				return fmt.Errorf("issuing %s: %w", name, err)
			}
		}
	}

	return nil
}

var clientOnly = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}

// configs maps file names to the subjects and names of certificates.
func configs(o Options) map[string]cert.Config {
	masters := []string{"system:masters"}
	all := map[string]cert.Config{
		"apiserver": {
			CommonName: "kube-apiserver",
			AltNames: cert.AltNames{
				DNSNames: []string{
					"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
					"gardener-apiserver.garden.svc",
				},
				IPs: parse(append([]string{"127.0.0.1"}, o.ServerIPs...)...),
			},
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"apiserver-kubelet-client": {CommonName: "apiserver-kubelet-client", Organization: masters, Usages: clientOnly},
		"admin":                    {CommonName: "admin", Organization: masters, Usages: clientOnly},
		// The user of the ServiceAccount on a seed.
		"resource-manager": {
			CommonName:   "system:serviceaccount:garden:gardener-resource-manager",
			Organization: []string{"system:masters", "system:serviceaccounts", "system:serviceaccounts:garden"},
			Usages:       clientOnly,
		},
		"provisioner":        {CommonName: "provisioner", Organization: masters, Usages: clientOnly},
		"controller-manager": {CommonName: "system:kube-controller-manager", Usages: clientOnly},
		"scheduler":          {CommonName: "system:kube-scheduler", Usages: clientOnly},
		"kube-proxy":         {CommonName: "system:kube-proxy", Usages: clientOnly},
	}

	for name, ip := range o.NodeIPs {
		all["kubelet-"+name] = cert.Config{
			CommonName:   "system:node:" + name,
			Organization: []string{"system:nodes"},
			AltNames:     cert.AltNames{DNSNames: []string{name}, IPs: parse(ip, "127.0.0.1")},
			Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
	}

	return all
}

func parse(addresses ...string) []net.IP {
	var ips []net.IP
	for _, address := range addresses {
		ips = append(ips, net.ParseIP(address))
	}

	return ips
}

// authority is a CA.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// ensureAuthority returns the CA with the name, and creates it again if it has expired.
func ensureAuthority(dir, name string) (*authority, error) {
	key, err := keyOf(dir, name)
	if err != nil {
		return nil, err
	}

	path := filepath.Join(dir, name+".crt")
	if found, err := cert.CertsFromFile(path); err == nil && time.Now().Before(found[0].NotAfter) && isFor(found[0], key) {
		return &authority{found[0], key}, nil
	}

	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, err
	}

	return &authority{certificate, key}, cert.WriteCert(path, encode(certificate.Raw))
}

// ensure issues the certificate unless the directory contains a valid one.
func (a *authority) ensure(dir, name string, config cert.Config, server string) error {
	key, err := keyOf(dir, name)
	if err != nil {
		return err
	}

	path := filepath.Join(dir, name+".crt")
	if found, err := cert.CertsFromFile(path); err == nil && a.isValid(found[0], config) && isFor(found[0], key) {
		return nil
	}

	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}

	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: config.CommonName, Organization: config.Organization},
		DNSNames:     config.AltNames.DNSNames,
		IPAddresses:  config.AltNames.IPs,
		NotBefore:    time.Now().Add(-time.Hour), // allows for a clock that is set back
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  config.Usages,
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}

	if err := writeKubeconfig(filepath.Join(dir, name), server, a.certificate, der); err != nil {
		return err
	}

	return cert.WriteCert(path, encode(der)) // last, so that an interrupted run starts over
}

// isValid returns whether the CA has signed the certificate, and whether it has the subject and the names and has not expired.
func (a *authority) isValid(certificate *x509.Certificate, config cert.Config) bool {
	ips := slices.EqualFunc(certificate.IPAddresses, config.AltNames.IPs, net.IP.Equal)

	return certificate.CheckSignatureFrom(a.certificate) == nil && time.Now().Before(certificate.NotAfter) && ips &&
		certificate.Subject.CommonName == config.CommonName &&
		slices.Equal(slices.Sorted(slices.Values(certificate.Subject.Organization)), slices.Sorted(slices.Values(config.Organization))) &&
		slices.Equal(certificate.DNSNames, config.AltNames.DNSNames)
}

// isFor returns whether the key is that of the certificate.
func isFor(certificate *x509.Certificate, key crypto.Signer) bool {
	public, is := key.Public().(*ecdsa.PublicKey)
	return is && public.Equal(certificate.PublicKey)
}

// keyOf returns the key in the file, and creates it if the file does not exist.
func keyOf(dir, name string) (crypto.Signer, error) {
	path := filepath.Join(dir, name+".key")

	content, _, err := keyutil.LoadOrGenerateKeyFile(path)
	if err != nil {
		return nil, err
	}

	key, err := keyutil.ParsePrivateKeyPEM(content)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}

	return key.(crypto.Signer), nil
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}

// writeKubeconfig writes a kubeconfig in JSON next to the key.
func writeKubeconfig(path, server string, ca *x509.Certificate, der []byte) error {
	key, err := os.ReadFile(path + ".key")
	if err != nil {
		return err
	}

	content, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "seed",
		"clusters": []any{map[string]any{"name": "seed", "cluster": map[string]any{"server": server, "certificate-authority-data": encode(ca.Raw)}}},
		"users":    []any{map[string]any{"name": "seed", "user": map[string]any{"client-certificate-data": encode(der), "client-key-data": key}}},
		"contexts": []any{map[string]any{"name": "seed", "context": map[string]any{"cluster": "seed", "user": "seed"}}},
	}, "", "  ")
	if err != nil {
		return err
	}

	return os.WriteFile(path+".kubeconfig", content, 0o600)
}
