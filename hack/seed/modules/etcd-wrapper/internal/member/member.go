// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package member runs one etcd in this process and tells the kubelet whether it serves. It knows nothing of backups.
package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/embed"
)

// Options describe the member.
type Options struct {
	// ServerName and ClientPort are where the own member is dialled for the readiness check.
	ServerName string
	ClientPort int
	// ClientCert and ClientKey are files, needed when the configuration asks clients for a certificate.
	ClientCert, ClientKey string
	// WrapperPort serves /readyz and /stop.
	WrapperPort int
	// ReadyTimeout bounds the time until the member joined its cluster; 0 waits for ever.
	ReadyTimeout time.Duration
	// DataVolume is the mount of the volume, ConfigPath the file that the sidecar's answer was written to.
	DataVolume, ConfigPath string
}

// Run serves until ctx ends, which is no error, or etcd fails. POST /stop calls stop.
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

// ignoreStop returns nil when ctx ended, whatever the error says: to be asked to stop is no failure.
func ignoreStop(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}

	return err
}

// restrictFiles gives every file below dir mode 0600. A missing dir has no files.
func restrictFiles(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		return os.Chmod(path, 0o600)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}
