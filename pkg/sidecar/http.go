// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// dialTimeout limits the connection and, separately, the TLS handshake. Only the context limits the response, since the
	// sidecar responds after it has stored the snapshot.
	dialTimeout = 5 * time.Second
	// maxHeaderSize is the maximum size of the headers of a response, in bytes.
	maxHeaderSize = 64 << 10
)

// HTTP is the Connector to real sidecars. A sidecar is not trusted. A Client follows no redirect, limits the size of a
// response, and returns error classes instead of data that the sidecar sends.
type HTTP struct{}

var _ Connector = HTTP{}

// Connect implements Connector.
func (HTTP) Connect(target Target) (Client, error) {
	base := url.URL{Scheme: "http", Host: target.Address}
	transport := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxHeaderSize,
		// A compressed response could expand beyond the limits.
		DisableCompression: true,
		// Requests are rare. A retry on a broken keep-alive connection would take a second snapshot.
		DisableKeepAlives: true,
		Proxy:             nil, // Address is the address of a pod
	}
	if target.CA != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(target.CA) {
			return nil, fmt.Errorf("connecting to the sidecar at %s: the CA bundle holds no certificate", target.Address)
		}
		base.Scheme = "https"
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: target.ServerName}
	}

	return &client{base: base, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// client is the Client of a real sidecar.
type client struct {
	base url.URL
	http *http.Client
}

// FullSnapshot implements Client. Without the parameter "final" the snapshot is not final.
func (c *client) FullSnapshot(ctx context.Context) (Snapshot, error) { return c.full(ctx, "") }

// FinalSnapshot implements Client.
func (c *client) FinalSnapshot(ctx context.Context) (Snapshot, error) {
	return c.full(ctx, "final=true")
}

func (c *client) full(ctx context.Context, query string) (Snapshot, error) {
	var taken *Snapshot
	err := c.get(ctx, "/snapshot/full", query, func(r *response) (err error) {
		taken, err = r.snapshot()

		return err
	})
	if err == nil && taken == nil {
		err = fmt.Errorf("%w: the response names no snapshot", ErrRefused)
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("taking a full snapshot: %w", err)
	}

	return *taken, nil
}

// DeltaSnapshot implements Client.
func (c *client) DeltaSnapshot(ctx context.Context) (*Snapshot, error) {
	var taken *Snapshot
	err := c.get(ctx, "/snapshot/delta", "", func(r *response) (err error) {
		taken, err = r.snapshot()

		return err
	})
	if err != nil {
		return nil, fmt.Errorf("taking a delta snapshot: %w", err)
	}

	return taken, nil
}

// LatestSnapshots implements Client.
func (c *client) LatestSnapshots(ctx context.Context) (LatestSnapshots, error) {
	var latest LatestSnapshots
	err := c.get(ctx, "/snapshot/latest", "", func(r *response) (err error) {
		latest, err = r.latestSnapshots()

		return err
	})
	if err != nil {
		return LatestSnapshots{}, fmt.Errorf("reading the newest snapshots: %w", err)
	}

	return latest, nil
}

// get requests a path and passes the response to read.
func (c *client) get(ctx context.Context, path, query string, read func(*response) error) error {
	target := c.base.JoinPath(path)
	target.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return fmt.Errorf("%w: the address is not valid", ErrUnreachable)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrUnreachable, classOf(err))
	}
	defer func() { _ = response.Body.Close() }()
	switch code := response.StatusCode; {
	case code == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: it has no store, or does not reach the sidecar of the leader", ErrRefused)
	case code >= 300 && code < 400:
		return fmt.Errorf("%w: HTTP %d, and redirects are not followed", ErrRefused, code)
	case code != http.StatusOK:
		return fmt.Errorf("%w: HTTP %d", ErrRefused, code)
	}

	return explain(read(newResponse(response.Body)))
}
