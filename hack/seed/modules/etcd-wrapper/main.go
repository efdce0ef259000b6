// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The etcd-wrapper command runs one etcd member beside etcd-backup-restore, for the local seed and its tests only.
//
// It speaks the protocol that the etcd container of a rendered pod must speak: wait for the sidecar to initialise the data directory,
// fetch the member's configuration from it, run etcd, serve /readyz and /stop, and leave a trace of the signal that ended it.
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

// dataVolume is where the StatefulSet mounts the member's volume, in this container and in the sidecar.
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
	flags.BoolVar(&o.sidecarTLS, "backup-restore-tls-enabled", false, "whether the sidecar serves HTTPS")
	flags.StringVar(&o.sidecarHost, "backup-restore-host-port", ":8080", "address of the sidecar; the host is also the expected name in its certificate")
	flags.StringVar(&o.sidecarCA, "backup-restore-ca-cert-bundle-path", "", "CA bundle that signed the sidecar's certificate")
	flags.StringVar(&o.member.ServerName, "etcd-server-name", "", "host name under which the own member is dialled")
	flags.IntVar(&o.member.ClientPort, "etcd-client-port", 2379, "client port of the own member")
	flags.StringVar(&o.member.ClientCert, "etcd-client-cert-path", "", "client certificate for the own member")
	flags.StringVar(&o.member.ClientKey, "etcd-client-key-path", "", "key of the client certificate")
	flags.DurationVar(&o.readyTimeout, "etcd-ready-timeout", 0, "how long etcd may take to join its cluster; 0 waits for ever")
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

	// The cause of the context tells apart the two ways to stop: by a signal, which is recorded, and by /stop, which is not.
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
