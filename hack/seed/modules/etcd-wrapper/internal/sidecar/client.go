// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package sidecar is the client side of etcd-backup-restore's HTTP interface. It knows nothing of etcd itself.
package sidecar

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// requestTimeout bounds a single request. The configuration may take a while: the sidecar asks the other members first. Where
// none of them is ready, as when several wake up together, that alone takes it 38 seconds.
const requestTimeout = 90 * time.Second

// Options say where the sidecar serves.
type Options struct {
	// HostPort is host:port; an empty host is this machine.
	HostPort string
	// ServerName is expected in the sidecar's certificate.
	ServerName string
	// TLS makes the requests HTTPS.
	TLS bool
	// CAFile signed the sidecar's certificate. Needed with TLS only.
	CAFile string
}

// Client calls one sidecar.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client, or an error when the CA bundle is missing or holds no certificate.
func NewClient(o Options) (*Client, error) {
	scheme, transport := "http", &http.Transport{}

	if o.TLS {
		bundle, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the sidecar's CA bundle: %w", err)
		}

		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("the sidecar's CA bundle %s holds no certificate", o.CAFile)
		}

		scheme, transport.TLSClientConfig = "https", &tls.Config{RootCAs: pool, ServerName: o.ServerName, MinVersion: tls.VersionTLS12}
	}

	hostPort := o.HostPort
	if strings.HasPrefix(hostPort, ":") {
		hostPort = "127.0.0.1" + hostPort
	}

	return &Client{base: scheme + "://" + hostPort, http: &http.Client{Transport: transport, Timeout: requestTimeout}}, nil
}

// Status returns New, Progress, Successful or Failed. The sidecar forgets the last two as soon as they were read.
func (c *Client) Status(ctx context.Context) (string, error) {
	body, err := c.get(ctx, "/initialization/status")
	return strings.TrimSpace(string(body)), err
}

// Start asks for the initialisation of the data directory; mode is full or sanity.
func (c *Client) Start(ctx context.Context, mode string) error {
	_, err := c.get(ctx, "/initialization/start?mode="+mode)
	return err
}

// Config returns etcd's configuration of this member.
func (c *Client) Config(ctx context.Context) ([]byte, error) {
	return c.get(ctx, "/config")
}

func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}

	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()

	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", path, err)
	}

	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s: %s", path, response.Status, strings.TrimSpace(string(body)))
	}

	return body, nil
}
