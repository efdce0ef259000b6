// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/modules/etcd-wrapper/wrapper/sidecar"
)

const (
	commandName = "start-etcd"
	// dataVolume is the mount path of the member's volume, in this container and in the sidecar.
	dataVolume = "/var/etcd/data"
	// VolumeVariable is the environment variable with which the tests of this package replace the mount path.
	VolumeVariable = "ETCD_WRAPPER_TEST_VOLUME"
	configFile     = "etcd.conf.yaml"
	usage          = `Usage: etcd-wrapper ` + commandName + ` [flags]

The command waits until etcd-backup-restore has initialized the data directory, fetches the configuration from it, and runs etcd.`
)

// Command is the command etcd-wrapper around one version of etcd.
type Command[C any, E Member, K io.Closer] struct {
	// Etcd is the version.
	Etcd Version[C, E, K]
	// Volume is the mount path of the data volume.
	Volume string
	// Period is the pause between two requests to the sidecar.
	Period time.Duration
}

// options are the values of the flags.
type options struct {
	sidecar      sidecar.Options
	port         int
	serverName   string
	clientPort   int
	clientCert   string
	clientKey    string
	readyTimeout time.Duration
}

// Main runs the command with the arguments of the process, and ends the process.
func Main[C any, E Member, K io.Closer](etcd Version[C, E, K]) {
	os.Exit(Command[C, E, K]{Etcd: etcd, Volume: cmp.Or(os.Getenv(VolumeVariable), dataVolume), Period: time.Second}.Run(os.Args[1:]))
}

// Run runs the command with the arguments until etcd ends, and returns the exit code of the process. A wrong flag ends the process.
func (c Command[C, E, K]) Run(args []string) int {
	slog.SetDefault(newLogger(os.Stderr))

	if len(args) == 0 || args[0] != commandName {
		_, _ = fmt.Fprintln(os.Stderr, usage)
		return 1
	}

	ctx, stop := signalContext(c.Volume)
	defer stop(nil)

	if err := c.startEtcd(ctx, stop, parse(args[1:])); err != nil {
		slog.Error("etcd-wrapper failed", "error", err)
		return 1
	}

	return 0
}

func parse(args []string) options {
	var o options

	flags := flag.NewFlagSet(commandName, flag.ExitOnError)
	flags.IntVar(&o.port, "etcd-wrapper-port", 9095, "port of /readyz and /stop")
	flags.BoolVar(&o.sidecar.TLS, "backup-restore-tls-enabled", false, "whether the sidecar uses TLS")
	flags.StringVar(&o.sidecar.HostPort, "backup-restore-host-port", ":8080", "address of the sidecar; its certificate must contain the host")
	flags.StringVar(&o.sidecar.CAFile, "backup-restore-ca-cert-bundle-path", "", "CA bundle for the sidecar's certificate")
	flags.StringVar(&o.serverName, "etcd-server-name", "", "host name with which the wrapper connects to etcd")
	flags.IntVar(&o.clientPort, "etcd-client-port", 2379, "client port of etcd")
	flags.StringVar(&o.clientCert, "etcd-client-cert-path", "", "client certificate with which the wrapper connects to etcd")
	flags.StringVar(&o.clientKey, "etcd-client-key-path", "", "key of the client certificate")
	flags.DurationVar(&o.readyTimeout, "etcd-ready-timeout", 0, "time to wait for etcd to join its cluster; etcd continues to start after it")
	_ = flags.Parse(args) // ExitOnError: never returns an error

	flags.VisitAll(func(f *flag.Flag) { slog.Info("flag", f.Name, f.Value.String()) })

	return o
}

// startEtcd returns nil if etcd has started, also if etcd fails later.
func (c Command[C, E, K]) startEtcd(ctx context.Context, stop context.CancelCauseFunc, o options) error {
	client, err := sidecar.NewClient(o.sidecar)
	if err != nil {
		return err
	}

	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("finding the directory of etcd's configuration: %w", err)
	}

	if err := sidecar.Initialize(ctx, client, func() string { return validationMode(c.Volume) }, c.Period); err != nil {
		return err
	}

	file := filepath.Join(home, configFile)
	if err := sidecar.FetchConfig(ctx, client, file, c.Period); err != nil {
		return err
	}

	config, err := c.Etcd.Load(file)
	if err != nil {
		return fmt.Errorf("reading etcd's configuration: %w", err)
	}

	return c.run(ctx, stop, config, o)
}

// newLogger returns a logger with the format and the keys of the real wrapper: JSON with level, ts and msg.
func newLogger(out io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		switch {
		case len(groups) > 0:
		case a.Key == slog.TimeKey:
			a.Key = "ts"
		case a.Key == slog.LevelKey:
			a.Value = slog.StringValue(strings.ToLower(a.Value.String()))
		}

		return a
	}}))
}
