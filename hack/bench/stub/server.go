// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
)

// knownTimeout is the time that a request waits until the informer shows the pod: the operator may connect first.
const knownTimeout = 5 * time.Second

// memberKey is the key of the member in the context of a request.
type memberKey struct{}

// connect returns a client of the in-memory etcd of the member to which the client of a request has connected.
func (s *Stub) connect(ctx context.Context) etcdclient.Client {
	m := ctx.Value(memberKey{}).(*member)
	m.etcd.SetRevision(s.revision())
	connected, _ := m.etcd.Connect(ctx, etcdclient.Target{Address: m.address}) // never fails

	return connected
}

// await returns the member with the address. It waits until the pod is known.
func (s *Stub) await(ctx context.Context, address net.Addr) (*member, error) {
	ctx, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil, err
	}
	for {
		known, changed := s.at(host)
		if known != nil {
			return known, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no pod has the address %s", host)
		case <-changed:
		}
	}
}

// serverConfig returns the configuration of the server of a member, with the certificate of its pod.
func (s *Stub) serverConfig(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	m, err := s.await(hello.Context(), hello.Conn.LocalAddr())
	if err != nil {
		return nil, err
	}
	if known := m.config.Load(); known != nil {
		return known, nil
	}
	secret := &corev1.Secret{}
	if err := s.client.Get(hello.Context(), client.ObjectKey{Namespace: m.pod.Namespace, Name: m.secret}, secret); err != nil {
		return nil, fmt.Errorf("reading the certificate of a member: %w", err)
	}
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the certificate in Secret %s of Pod %s: %w", m.secret, m.pod, err)
	}
	// A real member also verifies the certificate of the client, which costs the operator nothing.
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"}}
	// As with a real member, a client resumes its TLS sessions until the pod restarts. Otherwise, all members would have the same key.
	var ticketKey [32]byte
	_, _ = rand.Read(ticketKey[:]) // never fails
	config.SetSessionTicketKeys([][32]byte{ticketKey})
	m.config.CompareAndSwap(nil, config)

	return m.config.Load(), nil
}

// handler serves the client port of all members: gRPC, and the HTTP endpoint /health. A member of an unknown pod, or on a lost node, does
// not respond.
func (s *Stub) handler() http.Handler {
	etcd := newEtcdServer(s)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		m, err := s.await(r.Context(), local)
		if err != nil || s.isLost(m) {
			<-r.Context().Done()

			return
		}
		r = r.WithContext(context.WithValue(r.Context(), memberKey{}, m))
		switch {
		case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
			etcd.ServeHTTP(w, r)
		case r.URL.Path == "/health":
			err := s.connect(r.Context()).Health(r.Context())
			_, _ = fmt.Fprintf(w, `{"health":"%t"}`, err == nil)
		default:
			http.NotFound(w, r)
		}
	})
}

// serve serves the members at the address until the context ends. It calls listening with the address of the listener.
func (s *Stub) serve(ctx context.Context, address string, listening func(net.Addr)) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for connections to the members: %w", err)
	}
	listening(listener.Addr())
	if s.withTLS {
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: s.serverConfig})
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: s.handler(), Protocols: protocols, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		return fmt.Errorf("serving the members: %w", err)
	}

	return nil
}
