// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// snapshotName is the only object of each source. The sidecar parses the name.
const snapshotName = "Full-00000000-00000100-1700000000.gz"

// call is a request to the API of a provider.
type call struct {
	// operation is auth, list, get, put, or other for a request that concerns a container.
	operation string
	// host is the host of the endpoint, without a container as its first label.
	host string
	// container and object are what the request concerns. The object is the prefix of a list. Empty for auth.
	container, object string
	// credential identifies the credentials with which the request is authorized.
	credential string
}

// api is the API of a provider. It responds to a request, and returns what the request does.
type api func(http.ResponseWriter, *http.Request) call

// cloud is a TLS server with the API of one provider under any host name, and a proxy that connects clients to it.
type cloud struct {
	server, proxy *httptest.Server

	mutex sync.Mutex
	calls []call
	// unencrypted are the requests for which the client used no TLS.
	unencrypted []string
}

// startCloud starts the servers, and stops them after the spec.
func startCloud(respond api) *cloud {
	GinkgoHelper()

	c := &cloud{}
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done := respond(w, r)
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if !slices.Contains(c.calls, done) { // an upload has several requests
			c.calls = append(c.calls, done)
		}
	}))
	loopback, err := authority.certificate("")
	Expect(err).NotTo(HaveOccurred())
	c.server.TLS = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{*loopback}, // without a host name
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return authority.certificate(hello.ServerName)
		},
	}
	c.server.StartTLS()
	DeferCleanup(c.server.Close)

	c.proxy = httptest.NewServer(http.HandlerFunc(c.connect))
	DeferCleanup(c.proxy.Close)

	return c
}

// address is the host and port of the server, for clients that ignore proxies.
func (c *cloud) address() string { return c.server.Listener.Addr().String() }

// connect connects a client to the server, regardless of the host that the client requests.
func (c *cloud) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		c.mutex.Lock()
		c.unencrypted = append(c.unencrypted, r.Method+" "+r.URL.String())
		c.mutex.Unlock()
		http.Error(w, "use https", http.StatusForbidden)

		return
	}
	server, err := net.Dial("tcp", c.address())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)

		return
	}
	defer server.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() { _, _ = io.Copy(server, client) }()
	_, _ = io.Copy(client, server)
}

// environment are the variables with which a Go program uses the proxy and trusts the server.
func (c *cloud) environment() []string {
	return []string{"HTTPS_PROXY=" + c.proxy.URL, "HTTP_PROXY=" + c.proxy.URL, "SSL_CERT_FILE=" + authority.file, "SSL_CERT_DIR=" + filepath.Dir(authority.file)}
}

// reset returns the calls since the last reset.
func (c *cloud) reset() (calls []call, unencrypted []string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	calls, unencrypted = c.calls, c.unencrypted
	c.calls, c.unencrypted = nil, nil

	return calls, unencrypted
}

// certificateAuthority signs a certificate for each host name that a client requests.
type certificateAuthority struct {
	key  *ecdsa.PrivateKey
	root *x509.Certificate
	// file is the path of the root certificate in PEM.
	file string
}

func newAuthority() *certificateAuthority {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stores"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	root, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "ca.pem")
	Expect(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)).To(Succeed())

	return &certificateAuthority{key: key, root: root, file: file}
}

// certificate returns a certificate for the host, or for the loopback address if the host is empty.
func (a *certificateAuthority) certificate(host string) (*tls.Certificate, error) {
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: a.root.NotBefore, NotAfter: a.root.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if host == "" {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, a.key.Public(), a.key)

	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, err
}

// cut returns the first segment of a path, and the rest.
func cut(path string) (first, rest string) {
	first, rest, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")

	return first, rest
}
