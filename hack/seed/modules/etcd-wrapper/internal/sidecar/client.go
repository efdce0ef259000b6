// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package sidecar is a client of etcd-backup-restore's HTTP API.
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

// requestTimeout bounds a request. The configuration takes long, since the sidecar requests the status of the other
// members first. If none of them is ready, as after hibernation, that takes 38 seconds.
const requestTimeout = 90 * time.Second

// Options describe how to connect to the sidecar.
type Options struct {
	// HostPort is host:port. An empty host means the loopback address.
	HostPort string
	// ServerName is the name that the sidecar's certificate must contain.
	ServerName string
	// TLS enables HTTPS.
	TLS bool
	// CAFile contains the CA bundle for the sidecar's certificate. It is needed only with TLS.
	CAFile string
}

// Client is a client of one sidecar.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client. It returns an error if the CA bundle does not exist or contains no certificate.
func NewClient(o Options) (*Client, error) {
	scheme, transport := "http", &http.Transport{}

	if o.TLS {
		bundle, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the sidecar's CA bundle: %w", err)
		}

		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("the sidecar's CA bundle %s contains no certificate", o.CAFile)
		}

		scheme, transport.TLSClientConfig = "https", &tls.Config{RootCAs: pool, ServerName: o.ServerName, MinVersion: tls.VersionTLS12}
	}

	hostPort := o.HostPort
	if strings.HasPrefix(hostPort, ":") {
		hostPort = "127.0.0.1" + hostPort
	}

	return &Client{base: scheme + "://" + hostPort, http: &http.Client{Transport: transport, Timeout: requestTimeout}}, nil
}

// Status returns New, Progress, Successful or Failed. The sidecar resets the last two to New after it has returned
// them.
func (c *Client) Status(ctx context.Context) (string, error) {
	body, err := c.get(ctx, "/initialization/status")
	return strings.TrimSpace(string(body)), err
}

// Start starts the initialisation of the data directory. The mode is full or sanity.
func (c *Client) Start(ctx context.Context, mode string) error {
	_, err := c.get(ctx, "/initialization/start?mode="+mode)
	return err
}

// Config returns the member's configuration of etcd.
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
		return nil, fmt.Errorf("reading the response of %s: %w", path, err)
	}

	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned %s: %s", path, response.Status, strings.TrimSpace(string(body)))
	}

	return body, nil
}
