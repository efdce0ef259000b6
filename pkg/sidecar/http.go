// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// largestAnswer bounds how much of an answer is read. A list of a day of delta snapshots is a megabyte.
const largestAnswer = 64 << 20

// HTTP is the Connector to real sidecars.
type HTTP struct{}

var _ Connector = HTTP{}

// Connect implements Connector.
func (HTTP) Connect(target Target) (Client, error) {
	base := url.URL{Scheme: "http", Host: target.Address}
	transport := &http.Transport{
		// Questions are rare, and one that is sent again because a kept connection broke would take a second snapshot.
		DisableKeepAlives: true,
		Proxy:             nil, // the address is that of a pod
	}
	if target.CA != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(target.CA) {
			return nil, fmt.Errorf("connecting to the sidecar at %s: the CA bundle holds no certificate", target.Address)
		}
		base.Scheme = "https"
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: target.ServerName}
	}

	return &client{base: base, http: &http.Client{Transport: transport}}, nil
}

// client is the Client of a real sidecar.
type client struct {
	base url.URL
	http *http.Client
}

// FullSnapshot implements Client. The parameter "final" is left out, which means no.
func (c *client) FullSnapshot(ctx context.Context) (Snapshot, error) { return c.full(ctx, "") }

// FinalSnapshot implements Client.
func (c *client) FinalSnapshot(ctx context.Context) (Snapshot, error) {
	return c.full(ctx, "final=true")
}

func (c *client) full(ctx context.Context, query string) (Snapshot, error) {
	answer := &snapshotAnswer{}
	if err := c.get(ctx, "/snapshot/full", query, answer); err != nil {
		return Snapshot{}, fmt.Errorf("taking a full snapshot: %w", err)
	}
	if answer.Name == "" {
		return Snapshot{}, fmt.Errorf("taking a full snapshot: %w: the answer names none", ErrRefused)
	}

	return answer.snapshot(), nil
}

// DeltaSnapshot implements Client.
func (c *client) DeltaSnapshot(ctx context.Context) (*Snapshot, error) {
	var answer *snapshotAnswer
	if err := c.get(ctx, "/snapshot/delta", "", &answer); err != nil {
		return nil, fmt.Errorf("taking a delta snapshot: %w", err)
	}
	if answer == nil {
		return nil, nil
	}

	return new(answer.snapshot()), nil
}

// LatestSnapshots implements Client.
func (c *client) LatestSnapshots(ctx context.Context) (LatestSnapshots, error) {
	answer := &latestAnswer{}
	if err := c.get(ctx, "/snapshot/latest", "", answer); err != nil {
		return LatestSnapshots{}, fmt.Errorf("reading the newest snapshots: %w", err)
	}
	var latest LatestSnapshots
	if answer.Full != nil {
		latest.Full = new(answer.Full.snapshot())
	}
	for _, delta := range answer.Deltas {
		latest.Deltas = append(latest.Deltas, delta.snapshot())
	}

	return latest, nil
}

// snapshotAnswer is a snapshot as the sidecar writes it.
type snapshotAnswer struct {
	Kind          string    `json:"kind"`
	StartRevision int64     `json:"startRevision"`
	LastRevision  int64     `json:"lastRevision"`
	CreatedOn     time.Time `json:"createdOn"`
	Directory     string    `json:"snapDir"`
	Name          string    `json:"snapName"`
	IsFinal       bool      `json:"isFinal"`
}

func (a snapshotAnswer) snapshot() Snapshot {
	name := a.Name
	if a.Directory != "" { // the oldest layout of stores
		name = a.Directory + "/" + a.Name
	}

	return Snapshot{Name: name, Kind: a.Kind, StartRevision: a.StartRevision, LastRevision: a.LastRevision, CreatedAt: a.CreatedOn, Final: a.IsFinal}
}

// latestAnswer is the end of the store as the sidecar writes it.
type latestAnswer struct {
	Full   *snapshotAnswer  `json:"fullSnapshot"`
	Deltas []snapshotAnswer `json:"deltaSnapshots"`
}

// get asks for a path and decodes the answer.
func (c *client) get(ctx context.Context, path, query string, into any) error {
	target := c.base.JoinPath(path)
	target.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case response.StatusCode == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: it has no store, or does not reach the sidecar beside the leader", ErrRefused)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: %s", ErrRefused, strings.TrimSpace(response.Status+" "+excerpt(body)))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: its answer cannot be read: %w", ErrRefused, err)
	}

	return nil
}

// withoutURL leaves the URL out of an error: the pod's address changes, and messages that change are written again and again.
func withoutURL(err error) error {
	var urlError *url.Error
	if errors.As(err, &urlError) {
		return urlError.Err
	}

	return err
}

// excerpt is the beginning of a text.
func excerpt(body []byte) string {
	const length = 200
	if len(body) > length {
		body = body[:length]
	}

	return string(body)
}
