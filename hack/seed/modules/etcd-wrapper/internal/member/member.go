// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package member runs one etcd member in this process and reports its readiness to the kubelet.
package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"syscall"
	"time"

	"go.etcd.io/etcd/embed"
)

// Options describe the member.
type Options struct {
	// ServerName and ClientPort are the address of the member for the readiness check.
	ServerName string
	ClientPort int
	// ClientCert and ClientKey are files. They are needed if etcd requires client certificates.
	ClientCert, ClientKey string
	// WrapperPort is the port of /readyz and /stop.
	WrapperPort int
	// ReadyTimeout bounds the time until the member has joined its cluster. 0 means no timeout.
	ReadyTimeout time.Duration
	// DataVolume is the mount path of the volume. ConfigPath is the file with the configuration from the sidecar.
	DataVolume, ConfigPath string
}

// Run runs etcd until ctx ends, and then returns nil. It returns an error if etcd fails. A POST request to /stop calls
// stop.
func Run(ctx context.Context, stop context.CancelCauseFunc, o Options) error {
	syscall.Umask(0o077)

	config, err := embed.ConfigFromFile(o.ConfigPath)
	if err != nil {
		return fmt.Errorf("reading etcd's configuration: %w", err)
	}

	config.Logger = "zap"

	if err := restrictFiles(config.Dir); err != nil {
		return fmt.Errorf("restricting the modes of the data files: %w", err)
	}

	server, err := newServer(o, config.ClientTLSInfo, stop)
	if err != nil {
		return err
	}

	go server.serve(ctx)

	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer etcd.Close()

	if err := waitUntilJoined(ctx, etcd, o.ReadyTimeout); err != nil {
		return ignoreStop(ctx, err)
	}

	log.Print("etcd joined its cluster")
	removeExitCode(o.DataVolume)

	go server.probe(ctx)

	select {
	case <-ctx.Done():
		log.Printf("Stopping: %v", context.Cause(ctx))
		return nil
	case err := <-etcd.Err():
		return fmt.Errorf("etcd failed: %w", err)
	case <-etcd.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	}
}

func waitUntilJoined(ctx context.Context, etcd *embed.Etcd, timeout time.Duration) error {
	var expired <-chan time.Time
	if timeout > 0 {
		expired = time.After(timeout)
	}

	select {
	case <-etcd.Server.ReadyNotify():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-etcd.Err():
		return fmt.Errorf("etcd failed before it joined its cluster: %w", err)
	case <-etcd.Server.StopNotify():
		return errors.New("etcd stopped before it joined its cluster")
	case <-expired:
		return fmt.Errorf("etcd did not join its cluster within %s", timeout)
	}
}

// ignoreStop returns nil if ctx has ended, since a requested stop is no failure.
func ignoreStop(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}

	return err
}

// restrictFiles sets mode 0600 on every file below dir. The directory need not exist.
func restrictFiles(dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read

	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		return root.Chmod(path, 0o600)
	})
}
