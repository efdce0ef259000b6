// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Ports of the members.
const (
	clientPort = "2379"
	backupPort = "8080"
)

// knownTimeout is the time that a connection waits until the informer shows the pod: the operator may connect first.
const knownTimeout = 5 * time.Second

// contextKey is the key of the member in the context of a connection.
type contextKey struct{}

// memberFor returns the member to which the client of a call has connected.
func memberFor(ctx context.Context) *member {
	m, _ := ctx.Value(contextKey{}).(*member)

	return m
}

// memberConn is a connection to a member.
type memberConn struct {
	net.Conn
	member *member
}

// memberListener accepts connections, and waits for the pod and its certificate in the background.
type memberListener struct {
	net.Listener
	stub *Stub
	// secret returns the name of the Secret of the certificate of the member. Empty: plaintext.
	secret func(*member) string

	accepted chan net.Conn
	ended    chan struct{}
	end      sync.Once
	err      error
}

func (s *Stub) listen(address string, secret func(*member) string) (*memberListener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for connections to the members: %w", err)
	}
	l := &memberListener{Listener: listener, stub: s, secret: secret, accepted: make(chan net.Conn), ended: make(chan struct{})}
	go l.accept()

	return l, nil
}

func (l *memberListener) accept() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.close(err)

			return
		}
		go func() {
			ready, err := l.prepare(conn)
			if err != nil {
				_ = conn.Close()

				return
			}
			select {
			case l.accepted <- ready:
			case <-l.ended:
				_ = conn.Close()
			}
		}()
	}
}

func (l *memberListener) close(err error) {
	l.end.Do(func() {
		l.err = err
		close(l.ended)
	})
}

// prepare returns the connection with the member, and with its TLS.
func (l *memberListener) prepare(conn net.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), knownTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	found, changed := l.stub.registry.at(host)
	for found == nil {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no pod has the address %s", host)
		case <-changed:
			found, changed = l.stub.registry.at(host)
		}
	}
	withMember := &memberConn{Conn: conn, member: found}
	name := l.secret(found)
	if name == "" {
		return withMember, nil
	}
	config, err := l.stub.tlsConfig(ctx, found, name)
	if err != nil {
		return nil, err
	}

	return tls.Server(withMember, config), nil
}

// Accept returns the next connection to a known member.
func (l *memberListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.ended:
		return nil, l.err
	}
}

// Close stops the listener.
func (l *memberListener) Close() error {
	l.close(net.ErrClosed)

	return l.Listener.Close()
}

// withMember adds the member of a connection to the context of its requests.
func withMember(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, is := conn.(*tls.Conn); is {
		conn = encrypted.NetConn()
	}
	if known, is := conn.(*memberConn); is {
		return context.WithValue(ctx, contextKey{}, known.member)
	}

	return ctx
}

// tlsConfig returns the configuration of the server of a member that has the certificate in the Secret.
func (s *Stub) tlsConfig(ctx context.Context, m *member, secret string) (*tls.Config, error) {
	if known, found := m.tlsConfigs.Load(secret); found {
		return known.(*tls.Config), nil
	}
	certificate, err := s.certificate(ctx, client.ObjectKey{Namespace: m.pod.Namespace, Name: secret})
	if err != nil {
		return nil, err
	}
	// A real member also verifies the certificate of the client, which costs the operator nothing.
	config, _ := m.tlsConfigs.LoadOrStore(secret, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
	})

	return config.(*tls.Config), nil
}

// certificate returns the certificate in a Secret. The data of a Secret never changes: the operator creates another one.
func (s *Stub) certificate(ctx context.Context, key client.ObjectKey) (*tls.Certificate, error) {
	if known, found := s.certificates.Load(key); found {
		return known.(*tls.Certificate), nil
	}
	secret := &corev1.Secret{}
	if err := s.Client.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("reading the certificate of a member: %w", err)
	}
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the certificate in Secret %s: %w", key, err)
	}
	s.certificates.Store(key, &certificate)

	return &certificate, nil
}

// respond calls the handler, unless the member is on a lost node: then there is no response.
func (s *Stub) respond(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := memberFor(r.Context())
		if m == nil || s.registry.isLost(m) {
			<-r.Context().Done()

			return
		}
		handler.ServeHTTP(w, r)
	})
}

// etcdHandler serves the client port of etcd: gRPC, and HTTP endpoints.
func (s *Stub) etcdHandler() http.Handler {
	server := grpc.NewServer()
	register(server, s)
	other := http.NewServeMux()
	other.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"etcdserver":%q,"etcdcluster":%q}`, etcdVersion, clusterVersion)
	})
	other.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"health":"true"}`) })

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			server.ServeHTTP(w, r)
		} else {
			other.ServeHTTP(w, r)
		}
	})
}

// serve serves connections until the context ends.
func (s *Stub) serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: s.respond(handler), ConnContext: withMember, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		return fmt.Errorf("serving the members: %w", err)
	}

	return nil
}
