// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/template"
)

// Options describe the API server and the nodes in the certificates.
type Options struct {
	// Server is the URL of the API server in every kubeconfig.
	Server string
	// ServerIPs are the addresses of the API server in addition to the loopback address.
	ServerIPs []string
	// NodeIPs maps the names of the nodes to their addresses.
	NodeIPs map[string]string
}

// finished is the name of the file that Ensure writes last. Ensure deletes and recreates a directory without this file.
const finished = "finished"

// Ensure creates all files in dir if they do not exist. It starts over after an interrupted run. If another version of this program has
// issued a certificate for another user, Ensure issues the certificate again.
func Ensure(dir string, o Options) error {
	if _, err := os.Stat(filepath.Join(dir, finished)); err == nil {
		return reissue(dir, o)
	}

	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("deleting the directory of the certificates: %w", err)
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the directory of the certificates: %w", err)
	}

	if err := write(dir, o); err != nil {
		return fmt.Errorf("creating the certificates: %w", err)
	}

	return os.WriteFile(filepath.Join(dir, finished), nil, 0o600)
}

func write(dir string, o Options) error {
	authority, pair, err := NewAuthority("ca")
	if err != nil {
		return err
	}

	if err := pair.write(dir, "ca"); err != nil {
		return err
	}

	if err := writeFrontProxy(dir); err != nil {
		return err
	}

	if err := writeServiceAccountKey(dir); err != nil {
		return err
	}

	for name, request := range requests(o) {
		if err := issue(dir, name, authority, request, o); err != nil {
			return err
		}
	}

	return nil
}

// issue writes a certificate and a kubeconfig with it.
func issue(dir, name string, authority *Authority, request Request, o Options) error {
	pair, err := authority.Issue(request)
	if err != nil {
		return err
	}

	if err := pair.write(dir, name); err != nil {
		return err
	}

	content, err := kubeconfig(o.Server, authority.PEM, pair)
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, name+".kubeconfig"), content, 0o600)
}

// reissue issues certificates with another subject again.
func reissue(dir string, o Options) error {
	for name, request := range requests(o) {
		certificate, err := readCertificate(filepath.Join(dir, name+".crt"))
		if err != nil {
			return err
		}

		if certificate.Subject.CommonName == request.CommonName && slices.Equal(slices.Sorted(slices.Values(certificate.Subject.Organization)), slices.Sorted(slices.Values(request.Organizations))) {
			continue
		}

		authority, err := readAuthority(dir, "ca")
		if err != nil {
			return fmt.Errorf("reading the CA: %w", err)
		}

		if err := issue(dir, name, authority, request, o); err != nil {
			return err
		}
	}

	return nil
}

// requests maps file names to certificates. Each of them gets a kubeconfig, though not all need it.
func requests(o Options) map[string]Request {
	all := map[string]Request{
		"apiserver": {
			CommonName: "kube-apiserver",
			Names:      []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			IPs:        append([]string{"127.0.0.1"}, o.ServerIPs...),
		},
		"apiserver-kubelet-client": {CommonName: "apiserver-kubelet-client", Organizations: []string{"system:masters"}},
		"admin":                    {CommonName: "admin", Organizations: []string{"system:masters"}},
		// The user of the ServiceAccount on a seed.
		"resource-manager": {
			CommonName:    "system:serviceaccount:garden:gardener-resource-manager",
			Organizations: []string{"system:masters", "system:serviceaccounts", "system:serviceaccounts:garden"},
		},
		"provisioner":        {CommonName: "provisioner", Organizations: []string{"system:masters"}},
		"controller-manager": {CommonName: "system:kube-controller-manager"},
		"scheduler":          {CommonName: "system:kube-scheduler"},
		"kube-proxy":         {CommonName: "system:kube-proxy"},
	}

	for name, ip := range o.NodeIPs {
		all["kubelet-"+name] = Request{
			CommonName:    "system:node:" + name,
			Organizations: []string{"system:nodes"},
			Names:         []string{name},
			IPs:           []string{ip, "127.0.0.1"},
			Client:        true,
		}
	}

	return all
}

func writeFrontProxy(dir string) error {
	authority, pair, err := NewAuthority("front-proxy-ca")
	if err != nil {
		return err
	}

	if err := pair.write(dir, "front-proxy-ca"); err != nil {
		return err
	}

	client, err := authority.Issue(Request{CommonName: "front-proxy-client"})
	if err != nil {
		return err
	}

	return client.write(dir, "front-proxy-client")
}

func writeServiceAccountKey(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}

	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}

	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(filepath.Join(dir, "service-account.key"), private, 0o600); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, "service-account.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644)
}

var kubeconfigTemplate = template.Must(template.New("kubeconfig").Funcs(template.FuncMap{"base64": base64.StdEncoding.EncodeToString}).Parse(
	`apiVersion: v1
kind: Config
clusters:
- name: seed
  cluster:
    server: {{ .Server }}
    certificate-authority-data: {{ base64 .CA }}
users:
- name: seed
  user:
    client-certificate-data: {{ base64 .Pair.Certificate }}
    client-key-data: {{ base64 .Pair.Key }}
contexts:
- name: seed
  context:
    cluster: seed
    user: seed
current-context: seed
`))

func kubeconfig(server string, ca []byte, pair Pair) ([]byte, error) {
	var buffer bytes.Buffer

	err := kubeconfigTemplate.Execute(&buffer, struct {
		Server string
		CA     []byte
		Pair   Pair
	}{server, ca, pair})

	return buffer.Bytes(), err
}
