// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package sidecar is a client of etcd-backup-restore's HTTP API.
package sidecar

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// requestTimeout bounds a request with its response.
const requestTimeout = time.Minute

// Statuses of the initialization. StatusInProgress stands for every other response of the sidecar.
const (
	StatusUnknown    = "Unknown"
	StatusNew        = "New"
	StatusInProgress = "InProgress"
	StatusSuccessful = "Successful"
)

// Options describe how to connect to the sidecar.
type Options struct {
	// HostPort is host:port without a scheme. An empty host means the local host. With TLS, the sidecar's certificate must contain the text
	// before the first colon, or localhost if that is empty.
	HostPort string
	// TLS enables HTTPS.
	TLS bool
	// CAFile contains the CA bundle for the sidecar's certificate. It is needed only with TLS.
	CAFile string
}

// serverName is the name that the sidecar's certificate must contain. IPv6 addresses are not supported.
func (o Options) serverName() string {
	if host, _, _ := strings.Cut(o.HostPort, ":"); strings.TrimSpace(host) != "" {
		return host
	}

	return "localhost"
}

func (o Options) validate() error {
	var err error

	if !strings.Contains(o.HostPort, ":") {
		err = errors.Join(err, fmt.Errorf("the sidecar's address %q is not host:port", o.HostPort))
	}

	if strings.HasPrefix(o.HostPort, "http:") || strings.HasPrefix(o.HostPort, "https:") {
		err = errors.Join(err, fmt.Errorf("the sidecar's address %q contains a scheme", o.HostPort))
	}

	if o.TLS && strings.TrimSpace(o.CAFile) == "" {
		err = errors.Join(err, errors.New("TLS needs a CA bundle for the sidecar's certificate"))
	}

	return err
}

// Client is a client of one sidecar.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client, which reads the CA bundle once. It returns an error if the options are incomplete, or if the bundle does not
// exist. If the bundle contains no certificate, it returns a client whose requests fail.
func NewClient(o Options) (*Client, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}

	scheme, transport := "http", &http.Transport{}

	if o.TLS {
		pool, err := ReadBundle(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the sidecar's CA bundle: %w", err)
		}

		scheme, transport.TLSClientConfig = "https", &tls.Config{RootCAs: pool, ServerName: o.serverName(), MinVersion: tls.VersionTLS12}
	}

	return &Client{base: scheme + "://" + o.HostPort, http: &http.Client{Transport: transport, Timeout: requestTimeout}}, nil
}

// ReadBundle returns the certificates in the file. It returns an empty pool if the file contains none.
func ReadBundle(file string) (*x509.CertPool, error) {
	bundle, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)

	return pool, nil
}

// Status returns the status of the initialization, and StatusUnknown with an error. The sidecar resets the status to New after it has
// returned Successful or Failed.
func (c *Client) Status(ctx context.Context) (string, error) {
	body, err := c.read(ctx, "/initialization/status")
	if err != nil {
		return StatusUnknown, err
	}

	switch status := string(body); status {
	case StatusNew, StatusSuccessful:
		return status, nil
	default:
		return StatusInProgress, nil
	}
}

// Start starts the initialization of the data directory. The mode is full or sanity.
func (c *Client) Start(ctx context.Context, mode string) error {
	response, err := c.get(ctx, "/initialization/start?mode="+mode)
	if err != nil {
		return err
	}

	return response.Body.Close()
}

// Config returns the member's configuration of etcd.
func (c *Client) Config(ctx context.Context) ([]byte, error) { return c.read(ctx, "/config") }

func (c *Client) read(ctx context.Context, path string) ([]byte, error) {
	response, err := c.get(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read

	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the response of %s: %w", path, err)
	}

	return body, nil
}

// get returns the response. As in the real wrapper, the request has ended when the caller reads the body. Only what has arrived by then can
// be read, so that an attempt fails if the sidecar sends the body in several parts.
func (c *Client) get(ctx context.Context, path string) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}

	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}

	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
		return response, nil
	default:
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s returned %s", path, response.Status)
	}
}
