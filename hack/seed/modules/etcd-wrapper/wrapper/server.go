// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper/sidecar"
)

const (
	probePeriod  = 2 * time.Second
	probeTimeout = 5 * time.Second
)

// server is the HTTP server of the wrapper. The kubelet requests /readyz, which reports whether linearizable reads succeed. The sidecar
// requests /stop, which stops the member.
type server struct {
	ready atomic.Bool
	http  *http.Server
}

// newServer returns a server that does not listen yet.
func newServer(port int, stop context.CancelCauseFunc) *server {
	s := &server{}
	s.http = &http.Server{Addr: fmt.Sprintf(":%d", port), Handler: s.handler(stop), ReadHeaderTimeout: probeTimeout}

	return s
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

// serve serves until the server is closed. With TLS, the server has etcd's server certificate, which it reads once. It requires no client
// certificates. If the server cannot listen, the process ends without closing etcd.
func (s *server) serve(paths Paths) {
	serve := s.http.ListenAndServe
	if paths.hasTLS() {
		serve = func() error { return s.http.ListenAndServeTLS(paths.Cert, paths.Key) }
	}

	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		slog.Error("serving /readyz and /stop failed", "error", err)
		os.Exit(1)
	}
}

// probe calls get periodically until ctx ends. The period is the time between two starts, if get returns within it.
func (s *server) probe(ctx context.Context, get func(context.Context) error) {
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()

	for {
		attempt, cancel := context.WithTimeout(ctx, probeTimeout)
		err := get(attempt)

		cancel()

		if err != nil {
			slog.Error("reading from etcd failed", "error", err)
		}

		s.ready.Store(err == nil)

		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// clientTLS returns how the readiness probe connects to etcd, and the scheme of the endpoint. It reads the certificate and the CA bundle.
// The probe uses them until the process ends, also after the files were replaced. The configuration is nil without TLS.
func (p Paths) clientTLS(o options) (config *tls.Config, scheme string, err error) {
	if !p.hasTLS() {
		return nil, "http", nil
	}

	pool, err := sidecar.ReadBundle(p.CA)
	if err != nil {
		return nil, "", err
	}

	pair, err := tls.LoadX509KeyPair(o.clientCert, o.clientKey)
	if err != nil {
		return nil, "", err
	}

	return &tls.Config{RootCAs: pool, ServerName: o.serverName, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, "https", nil
}
