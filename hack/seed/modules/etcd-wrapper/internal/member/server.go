// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/pkg/transport"
)

const (
	probePeriod  = 2 * time.Second
	probeTimeout = 5 * time.Second
)

// door is what the kubelet and the sidecar see of the member: readiness by a linearizable read, and a way to stop it.
type door struct {
	ready    atomic.Bool
	server   *http.Server
	endpoint string
	client   *tls.Config
	serveTLS bool
}

// newDoor prepares the server, with etcd's own server certificate when clients use TLS. It asks nobody for a client certificate.
func newDoor(o Options, info transport.TLSInfo, stop context.CancelCauseFunc) (*door, error) {
	d := &door{serveTLS: info.CertFile != "", endpoint: fmt.Sprintf("http://%s:%d", o.ServerName, o.ClientPort)}
	d.server = &http.Server{Addr: fmt.Sprintf(":%d", o.WrapperPort), Handler: d.handler(stop), ReadHeaderTimeout: probeTimeout}

	if !d.serveTLS {
		return d, nil
	}

	d.endpoint = fmt.Sprintf("https://%s:%d", o.ServerName, o.ClientPort)
	d.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(info.CertFile, info.KeyFile) // read each time: certificates are renewed in place
		return &pair, err
	}}

	var err error

	d.client, err = transport.TLSInfo{CertFile: o.ClientCert, KeyFile: o.ClientKey, TrustedCAFile: info.TrustedCAFile}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}

	return d, nil
}

func (d *door) handler(stop context.CancelCauseFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !d.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/stop", func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			stop(errors.New("asked to stop by " + r.RemoteAddr))
		}
	})

	return mux
}

func (d *door) serve(ctx context.Context) {
	context.AfterFunc(ctx, func() { _ = d.server.Close() })

	serve := d.server.ListenAndServe
	if d.serveTLS {
		serve = func() error { return d.server.ListenAndServeTLS("", "") }
	}

	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("Readiness is not served: %v", err)
	}
}

// probe keeps the readiness up to date until ctx ends.
func (d *door) probe(ctx context.Context) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{d.endpoint}, TLS: d.client, DialTimeout: probeTimeout, Context: ctx})
	if err != nil {
		log.Fatalf("Readiness cannot be checked: %v", err)
	}
	defer func() { _ = client.Close() }()

	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, probeTimeout)
		_, err := client.Get(attempt, "health")

		cancel()

		if ready := err == nil; d.ready.Swap(ready) != ready {
			log.Printf("Ready: %t (%v)", ready, err)
		}

		select {
		case <-ctx.Done():
		case <-time.After(probePeriod):
		}
	}
}
