// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdctl prepares what etcdctl needs on this machine to talk to members by forwarded ports.
//
// What may not live here: access to Kubernetes, and running etcdctl. Both are app's.
package etcdctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
)

// handshakeTimeout limits the TLS handshake that reads the certificate of a member.
const handshakeTimeout = 5 * time.Second

// Endpoint is the URL of a local address that open forwards to the member until the context ends. etcdctl verifies the
// member by the host of the URL, so that the host is one for which the certificate of the member is valid. It is an
// error if there is none. If the member shows no certificate in time, the host is the address, and etcdctl reports the
// failure. The certificate is read with a temporary connection: a member that requires a client certificate closes it,
// and this would end a shared forwarded port.
func Endpoint(ctx context.Context, open func(context.Context) (string, error), secured bool) (string, error) {
	scheme, host := "http://", "127.0.0.1"
	if secured {
		temporary, cancel := context.WithCancel(ctx)
		defer cancel()
		address, err := open(temporary)
		if err != nil {
			return "", err
		}
		if host, err = hostOf(certificateAt(temporary, address)); err != nil {
			return "", err
		}
		scheme = "https://"
	}
	address, err := open(ctx)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)

	return scheme + net.JoinHostPort(host, port), err
}

// hostOf is the host for which a certificate is valid. Those that gardenlet has issued are for the address alone, those of others may be
// for the name alone.
func hostOf(certificate *x509.Certificate) (string, error) {
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if certificate == nil || certificate.VerifyHostname(host) == nil {
			return host, nil
		}
	}

	return "", fmt.Errorf("its certificate is valid for neither 127.0.0.1 nor localhost but for %v, so that etcdctl cannot verify it by a "+
		"forwarded port: issue it for one of them as well", certificate.DNSNames)
}

// certificateAt is the certificate that a server shows, nil where it shows none. Nothing is sent to it.
func certificateAt(ctx context.Context, address string) *x509.Certificate {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var shown *x509.Certificate
	dialer := &tls.Dialer{Config: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // #nosec G402 -- the certificate is only read; etcdctl verifies it
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates[0] // servers always show one

			return nil
		},
	}}
	// A server that wants to see a certificate as well ends the connection, after it has shown its own.
	if connection, err := dialer.DialContext(ctx, "tcp", address); err == nil {
		_ = connection.Close() // nothing was sent
	}

	return shown
}

// WriteTLS writes credentials into files of the folder, and returns the variables that point etcdctl to them.
func WriteTLS(folder string, material etcdclient.TLS) ([]string, error) {
	var environment []string
	for _, file := range []struct {
		variable string
		content  []byte
	}{
		{"ETCDCTL_CACERT", material.CA}, {"ETCDCTL_CERT", material.Certificate}, {"ETCDCTL_KEY", material.Key},
	} {
		if len(file.content) == 0 {
			continue
		}
		path := filepath.Join(folder, file.variable)
		if err := os.WriteFile(path, file.content, 0o600); err != nil {
			return nil, fmt.Errorf("writing %s: %w", file.variable, err)
		}
		environment = append(environment, file.variable+"="+path)
	}

	return environment, nil
}
