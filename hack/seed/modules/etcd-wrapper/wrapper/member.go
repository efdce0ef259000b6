// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package wrapper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// probeKey is the key that the readiness probe reads. It need not exist.
const probeKey = "foo"

// run runs etcd until ctx ends, or until etcd fails or stops. In these three cases it returns nil. It returns an error only if etcd does
// not start.
func (c Command[C, E, K]) run(ctx context.Context, stop context.CancelCauseFunc, config C, o options) error {
	syscall.Umask(0o077)

	paths := c.Etcd.Paths(config)
	if err := restrictFiles(paths.Data); err != nil {
		return fmt.Errorf("restricting the modes of the data files: %w", err)
	}

	clientTLS, scheme, err := paths.clientTLS(o)
	if err != nil {
		return fmt.Errorf("reading the client certificate: %w", err)
	}

	client, err := c.Etcd.Connect(ctx, fmt.Sprintf("%s://%s:%d", scheme, o.serverName, o.clientPort), probeTimeout, clientTLS)
	if err != nil {
		return fmt.Errorf("creating the client for the readiness probe: %w", err)
	}
	defer stop(nil)
	defer func() { _ = client.Close() }() // the process ends

	s := newServer(o.port, stop)

	go s.probe(ctx, func(ctx context.Context) error { return c.Etcd.Get(ctx, client, probeKey) })
	go s.serve(paths)

	etcd, err := c.Etcd.Start(config)
	if err != nil {
		_ = s.http.Close()
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer etcd.Close()
	defer func() { _ = s.http.Close() }() // before etcd, which may close slowly

	waitUntilReady(c.Etcd.Server(etcd), o.readyTimeout)
	removeExitCode(c.Volume)

	select {
	case <-ctx.Done():
		slog.Error("stopping etcd", "cause", context.Cause(ctx))
	case <-c.Etcd.Server(etcd).StopNotify():
		slog.Error("etcd stopped by itself")
	case err := <-etcd.Err():
		slog.Error("etcd failed", "error", err)
	}

	return nil
}

// waitUntilReady returns when the member has joined its cluster or has stopped, or after the timeout. In none of these cases does the start
// end. The operator does not set the flag, so that the timeout is 0 and the wrapper logs the error at each start.
func waitUntilReady(server Server, timeout time.Duration) {
	select {
	case <-server.ReadyNotify():
		slog.Info("etcd is ready")
	case <-server.StopNotify():
		slog.Error("etcd stopped before it was ready")
	case <-time.After(timeout):
		slog.Error("timeout waiting for ReadyNotify signal, aborting start of etcd")
	}
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
