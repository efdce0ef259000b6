// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The etcd-wrapper command runs one member of etcd 3.5 next to etcd-backup-restore, for the local seed and its tests only.
package main

import (
	"context"
	"crypto/tls"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper"
)

func main() { wrapper.Main(version()) }

// version adapts the packages of etcd 3.5. It differs only in imports from that of the other module, since type parameters give no access to
// fields.
func version() wrapper.Version[*embed.Config, *embed.Etcd, *clientv3.Client] {
	return wrapper.Version[*embed.Config, *embed.Etcd, *clientv3.Client]{
		Load:  embed.ConfigFromFile,
		Start: embed.StartEtcd,
		Paths: func(c *embed.Config) wrapper.Paths {
			return wrapper.Paths{Data: c.Dir, Cert: c.ClientTLSInfo.CertFile, Key: c.ClientTLSInfo.KeyFile, CA: c.ClientTLSInfo.TrustedCAFile}
		},
		Server: func(e *embed.Etcd) wrapper.Server { return e.Server },
		Connect: func(ctx context.Context, endpoint string, dialTimeout time.Duration, tlsConfig *tls.Config) (*clientv3.Client, error) {
			return clientv3.New(clientv3.Config{
				Context: ctx, Endpoints: []string{endpoint}, DialTimeout: dialTimeout, TLS: tlsConfig, LogConfig: new(zap.NewProductionConfig()),
			})
		},
		Get: func(ctx context.Context, client *clientv3.Client, key string) error {
			_, err := client.Get(ctx, key)
			return err
		},
	}
}
