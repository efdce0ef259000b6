// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package wrapper runs one etcd member in this process, next to etcd-backup-restore. It imports no version of etcd.
package wrapper

import (
	"context"
	"crypto/tls"
	"io"
	"strings"
	"time"
)

// Version adapts the packages of one version of etcd. C is the type of its configuration, E that of a running member, and K that of a client.
type Version[C any, E Member, K io.Closer] struct {
	// Load reads a configuration file.
	Load func(file string) (C, error)
	// Start starts a member. It returns before the member has joined its cluster.
	Start func(config C) (E, error)
	// Paths returns the paths in a configuration.
	Paths func(config C) Paths
	// Server returns the server of a running member.
	Server func(etcd E) Server
	// Connect returns a client without a connection. The client connects when it is used, and ends with ctx. A nil tlsConfig means plaintext.
	Connect func(ctx context.Context, endpoint string, dialTimeout time.Duration, tlsConfig *tls.Config) (K, error)
	// Get reads the key with a linearizable read. The key need not exist.
	Get func(ctx context.Context, client K, key string) error
}

// Member is a running etcd member. *embed.Etcd implements it.
type Member interface {
	Close()
	Err() <-chan error
}

// Server is the server of a running member. *etcdserver.EtcdServer implements it.
type Server interface {
	// ReadyNotify returns a channel that is closed when the member has joined its cluster.
	ReadyNotify() <-chan struct{}
	// StopNotify returns a channel that is closed when the server has stopped.
	StopNotify() <-chan struct{}
}

// Paths are the paths in etcd's configuration that the wrapper uses. Empty means that the configuration does not contain the path.
type Paths struct {
	// Data is the data directory.
	Data string
	// Cert and Key are the server certificate for clients. CA is the bundle for client certificates.
	Cert, Key, CA string
}

// hasTLS returns whether the wrapper uses TLS, as a server and as a client of etcd. etcd itself uses TLS if one of Cert and Key exists.
func (p Paths) hasTLS() bool {
	for _, path := range []string{p.Cert, p.Key, p.CA} {
		if strings.TrimSpace(path) == "" {
			return false
		}
	}

	return true
}
