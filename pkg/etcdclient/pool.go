// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// idleTimeout is the time after which the Pool drops an unused member, with its connection, credentials and TLS session.
const idleTimeout = 5 * time.Minute

// grpcIdleTimeout is the time after which gRPC closes its connection to a member, and ends the goroutines of it. The next call connects again.
// Multi-member clusters are probed more often. A healthy single member therefore has no connection most of the time.
const grpcIdleTimeout = 20 * time.Second

// sweepPeriod is the shortest time between two searches for unused connections. A search reads all connections of the Pool.
const sweepPeriod = time.Minute

// maxConnections is the maximum number of members of a Pool, with or without an open connection: seven members of each of 585 Etcds. A new member beyond
// it drops the least recently used one of the Etcd with the most members, in the namespace with the most members. No namespace takes the share of others,
// and no Etcd takes that of others in its namespace.
const maxConnections = 4096

// Pool is the Connector to real members. It keeps connections open that are used often. For the others, it keeps the credentials and the TLS sessions. A
// full TLS handshake needs milliseconds of CPU time. Reading the credentials needs requests for three Secrets.
type Pool struct {
	callTimeout     time.Duration
	clock           clock.PassiveClock
	dialer          Dialer
	maxConnections  int
	grpcIdleTimeout time.Duration

	lock        sync.Mutex
	connections map[poolKey]*pooled
	// nextSweep is the time of the next search for unused connections.
	nextSweep time.Time
}

type poolKey struct{ address, serverName, credentials string }

type pooled struct {
	*member
	etcd     types.NamespacedName
	lastUsed time.Time
}

var _ Connector = (*Pool)(nil)

// Dialer opens a connection to an address of the form host:port.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// NewPool returns an empty Pool that connects directly to the members. callTimeout limits each call to a member and must be
// greater than 0.
func NewPool(callTimeout time.Duration, clock clock.PassiveClock) *Pool {
	return NewPoolThrough(func(ctx context.Context, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}, callTimeout, clock)
}

// NewPoolThrough is NewPool for callers that cannot reach the members by their addresses. dialer opens the connections.
func NewPoolThrough(dialer Dialer, callTimeout time.Duration, clock clock.PassiveClock) *Pool {
	return &Pool{dialer: dialer, callTimeout: callTimeout, clock: clock, maxConnections: maxConnections, grpcIdleTimeout: grpcIdleTimeout, connections: map[poolKey]*pooled{}}
}

// Connect implements Connector.
func (p *Pool) Connect(ctx context.Context, target Target) (Client, error) {
	key := keyOf(target)
	if found := p.lookup(key); found != nil {
		return found, nil
	}
	made, err := p.dial(ctx, target)
	if err != nil {
		return nil, err
	}

	return p.add(key, made, target.Etcd), nil
}

// Disconnect implements Connector.
func (p *Pool) Disconnect(target Target) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.remove(keyOf(target))
}

// Close closes every connection. The Pool can be used again afterwards.
func (p *Pool) Close() {
	p.lock.Lock()
	defer p.lock.Unlock()
	for key := range p.connections {
		p.remove(key)
	}
}

func keyOf(target Target) poolKey {
	key := poolKey{address: target.Address, serverName: target.ServerName}
	if target.Credentials != nil {
		key.credentials = "tls " + target.Credentials.Version
	}

	return key
}

// lookup returns the connection of the key, or nil. Once per sweepPeriod it closes all other connections that reached the idleTimeout.
func (p *Pool) lookup(key poolKey) *member {
	p.lock.Lock()
	defer p.lock.Unlock()
	now := p.clock.Now()
	if found := p.connections[key]; found != nil {
		found.lastUsed = now
	}
	if !now.Before(p.nextSweep) {
		p.nextSweep = now.Add(sweepPeriod)
		for other, connection := range p.connections {
			if now.Sub(connection.lastUsed) > idleTimeout {
				p.remove(other)
			}
		}
	}
	if found := p.connections[key]; found != nil {
		return found.member
	}

	return nil
}

// add adds a connection. If another caller has added one for the key, add closes the new connection and returns the existing
// one.
func (p *Pool) add(key poolKey, made *member, etcd types.NamespacedName) *member {
	p.lock.Lock()
	defer p.lock.Unlock()
	if found := p.connections[key]; found != nil {
		made.close() // nothing was sent on it

		return found.member
	}
	if len(p.connections) >= p.maxConnections {
		p.remove(p.oldest(etcd))
	}
	p.connections[key] = &pooled{member: made, etcd: etcd, lastUsed: p.clock.Now()}

	return made
}

// oldest is the key of the least recently used connection of the Etcds with the most connections, in the namespaces with the most connections. It counts
// one more connection of the Etcd that adds one.
func (p *Pool) oldest(adding types.NamespacedName) poolKey {
	ofNamespace, ofEtcd := map[string]int{adding.Namespace: 1}, map[types.NamespacedName]int{adding: 1}
	for _, connection := range p.connections {
		ofNamespace[connection.etcd.Namespace]++
		ofEtcd[connection.etcd]++
	}
	var (
		oldest poolKey
		found  *pooled
	)
	for key, connection := range p.connections {
		if found == nil || cmp.Or(
			cmp.Compare(ofNamespace[found.etcd.Namespace], ofNamespace[connection.etcd.Namespace]),
			cmp.Compare(ofEtcd[found.etcd], ofEtcd[connection.etcd]),
			connection.lastUsed.Compare(found.lastUsed),
		) < 0 {
			oldest, found = key, connection
		}
	}

	return oldest
}

func (p *Pool) remove(key poolKey) {
	if found := p.connections[key]; found != nil {
		found.close()
		delete(p.connections, key)
	}
}

func (p *Pool) dial(ctx context.Context, target Target) (*member, error) {
	scheme, tlsConfig := "http://", (*tls.Config)(nil)
	if target.Credentials != nil {
		material, err := target.Credentials.Load(ctx)
		if err != nil {
			return nil, fmt.Errorf("loading credentials for %s: %w", target.Address, err)
		}
		if tlsConfig, err = tlsConfigFor(material); err != nil {
			return nil, fmt.Errorf("credentials for %s: %w", target.Address, err)
		}
		scheme = "https://"
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: []string{scheme + nameOf(target)},
		TLS:       tlsConfig,
		Logger:    zap.NewNop(), // errors are returned
		// This limits the calls of clientv3. The call option below limits calls that bypass it.
		MaxCallRecvMsgSize: maxMessageSize,
		// The client verifies the certificate of the member for the host of the endpoint, which is therefore the server name.
		// The dialer connects to the address.
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.dialer(ctx, target.Address) }),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageSize)),
			grpc.WithMaxHeaderListSize(maxHeaderSize),
			grpc.WithIdleTimeout(p.grpcIdleTimeout),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", target.Address, err)
	}

	return &member{
		etcd: etcd, callTimeout: p.callTimeout, base: scheme + nameOf(target),
		http: &http.Client{
			Transport: &http.Transport{
				// The transport continues to connect after the end of a request. Without these limits, a member that does not respond would keep
				// connections for ever.
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					ctx, cancel := context.WithTimeout(ctx, p.callTimeout)
					defer cancel()

					return p.dialer(ctx, target.Address)
				},
				TLSHandshakeTimeout: p.callTimeout,
				TLSClientConfig:     tlsConfig.Clone(),
				// The calls are rare, and the Pool closes only the connection for gRPC. A resumed TLS session makes the handshake cheap.
				DisableKeepAlives:      true,
				MaxResponseHeaderBytes: maxHeaderSize,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// nameOf is the target's address. If the target has a server name, it replaces the host.
func nameOf(target Target) string {
	_, port, err := net.SplitHostPort(target.Address)
	if target.ServerName == "" || err != nil {
		return target.Address
	}

	return net.JoinHostPort(target.ServerName, port)
}

func tlsConfigFor(material TLS) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	if !config.RootCAs.AppendCertsFromPEM(material.CA) {
		return nil, errors.New("the CA bundle holds no certificate")
	}
	if len(material.Certificate) == 0 && len(material.Key) == 0 {
		return config, nil
	}
	certificate, err := tls.X509KeyPair(material.Certificate, material.Key)
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{certificate}

	return config, nil
}
