// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The etcd-wrapper command runs one etcd member next to etcd-backup-restore, for the local seed and its tests only.
//
// It implements the protocol of the etcd container. It waits until the sidecar has initialised the data directory, fetches the member's
// configuration from the sidecar, and runs etcd. It has the endpoints /readyz and /stop, and records the signal that ends it.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/internal/member"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/internal/sidecar"
)

// dataVolume is the mount path of the member's volume, in this container and in the sidecar.
const dataVolume = "/var/etcd/data"

func main() {
	if len(os.Args) < 2 || os.Args[1] != "start-etcd" {
		fmt.Fprintln(os.Stderr, "usage: etcd-wrapper start-etcd [flags]")
		os.Exit(2)
	}

	options := parse(os.Args[2:])
	if err := run(options); err != nil {
		fmt.Fprintln(os.Stderr, "etcd-wrapper:", err)
		os.Exit(1)
	}
}

type options struct {
	sidecarTLS   bool
	sidecarHost  string
	sidecarCA    string
	readyTimeout time.Duration
	member       member.Options
}

func parse(args []string) options {
	var o options

	flags := flag.NewFlagSet("start-etcd", flag.ExitOnError)
	flags.IntVar(&o.member.WrapperPort, "etcd-wrapper-port", 9095, "port of /readyz and /stop")
	flags.BoolVar(&o.sidecarTLS, "backup-restore-tls-enabled", false, "whether the sidecar uses TLS")
	flags.StringVar(&o.sidecarHost, "backup-restore-host-port", ":8080", "address of the sidecar; its certificate must contain the host")
	flags.StringVar(&o.sidecarCA, "backup-restore-ca-cert-bundle-path", "", "CA bundle for the sidecar's certificate")
	flags.StringVar(&o.member.ServerName, "etcd-server-name", "", "host name with which the wrapper connects to etcd")
	flags.IntVar(&o.member.ClientPort, "etcd-client-port", 2379, "client port of etcd")
	flags.StringVar(&o.member.ClientCert, "etcd-client-cert-path", "", "client certificate with which the wrapper connects to etcd")
	flags.StringVar(&o.member.ClientKey, "etcd-client-key-path", "", "key of the client certificate")
	flags.DurationVar(&o.readyTimeout, "etcd-ready-timeout", 0, "timeout for etcd to join its cluster; 0 means no timeout")
	_ = flags.Parse(args) // ExitOnError: never returns an error

	o.member.ReadyTimeout = o.readyTimeout
	o.member.DataVolume = dataVolume
	o.member.ConfigPath = os.Getenv("HOME") + "/etcd.conf.yaml"

	return o
}

func run(o options) error {
	host, _, err := net.SplitHostPort(o.sidecarHost)
	if err != nil {
		return fmt.Errorf("reading --backup-restore-host-port: %w", err)
	}

	client, err := sidecar.NewClient(sidecar.Options{HostPort: o.sidecarHost, ServerName: host, TLS: o.sidecarTLS, CAFile: o.sidecarCA})
	if err != nil {
		return err
	}

	// The process stops with a signal, which it records, or with a request to /stop, which it does not record. The cause of the context
	// distinguishes them.
	ctx, stop := member.SignalContext(context.Background(), dataVolume)
	defer stop(nil)

	if err := sidecar.Initialize(ctx, client, member.ValidationMode(dataVolume), time.Second); err != nil {
		return err
	}

	config, err := sidecar.FetchConfig(ctx, client, time.Second)
	if err != nil {
		return err
	}

	if err := os.WriteFile(o.member.ConfigPath, config, 0o600); err != nil {
		return fmt.Errorf("writing etcd's configuration: %w", err)
	}

	return member.Run(ctx, stop, o.member)
}
