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

// server is the HTTP server of the wrapper. The kubelet requests /readyz, which reports whether linearizable reads succeed. The sidecar
// requests /stop, which stops the member.
type server struct {
	ready    atomic.Bool
	http     *http.Server
	endpoint string
	client   *tls.Config
	serveTLS bool
}

// newServer returns a server that does not listen yet. If clients of etcd use TLS, the server has etcd's server certificate. It requires
// no client certificates.
func newServer(o Options, info transport.TLSInfo, stop context.CancelCauseFunc) (*server, error) {
	s := &server{serveTLS: info.CertFile != "", endpoint: fmt.Sprintf("http://%s:%d", o.ServerName, o.ClientPort)}
	s.http = &http.Server{Addr: fmt.Sprintf(":%d", o.WrapperPort), Handler: s.handler(stop), ReadHeaderTimeout: probeTimeout}

	if !s.serveTLS {
		return s, nil
	}

	s.endpoint = fmt.Sprintf("https://%s:%d", o.ServerName, o.ClientPort)
	s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(info.CertFile, info.KeyFile) // read for each connection, since the files of renewed certificates are replaced
		return &pair, err
	}}

	var err error

	s.client, err = transport.TLSInfo{CertFile: o.ClientCert, KeyFile: o.ClientKey, TrustedCAFile: info.TrustedCAFile}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}

	return s, nil
}

func (s *server) handler(stop context.CancelCauseFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/stop", func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			stop(errors.New("stop requested by " + r.RemoteAddr))
		}
	})

	return mux
}

func (s *server) serve(ctx context.Context) {
	context.AfterFunc(ctx, func() { _ = s.http.Close() })

	serve := s.http.ListenAndServe
	if s.serveTLS {
		serve = func() error { return s.http.ListenAndServeTLS("", "") }
	}

	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("Serving readiness failed: %v", err)
	}
}

// probe updates the readiness periodically until ctx ends.
func (s *server) probe(ctx context.Context) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.endpoint}, TLS: s.client, DialTimeout: probeTimeout, Context: ctx})
	if err != nil {
		log.Fatalf("Readiness cannot be checked: %v", err)
	}
	defer func() { _ = client.Close() }()

	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, probeTimeout)
		_, err := client.Get(attempt, "health")

		cancel()

		if ready := err == nil; s.ready.Swap(ready) != ready {
			log.Printf("Ready: %t (%v)", ready, err)
		}

		select {
		case <-ctx.Done():
		case <-time.After(probePeriod):
		}
	}
}
