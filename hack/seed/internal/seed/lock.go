// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// lockTimeout is long enough for another command that builds everything.
const lockTimeout = time.Hour

// Lock waits until no other command changes the cluster, and excludes other commands until unlock is called. It returns
// an error if another user's cluster runs on this machine.
func (s *Seed) Lock(ctx context.Context) (unlock func(), err error) {
	var file *os.File

	if err := s.Out.Wait(ctx, "the "+s.Layout.Name(), lockTimeout, func(context.Context) (missing string, err error) {
		file, err = tryLock(s.Layout.Lock())
		if file == nil && err == nil {
			missing = "another command is running"
		}

		return missing, err
	}); err != nil {
		return nil, err
	}

	if owner, err := os.ReadFile(s.Layout.Owner()); err == nil && strings.TrimSpace(string(owner)) != s.Layout.Run {
		_ = file.Close()
		return nil, fmt.Errorf("another %s cluster runs on this machine, in %s; take it down first (as the user that started it)", s.Layout.Name(), strings.TrimSpace(string(owner)))
	}

	return func() { _ = file.Close() }, nil
}

// tryLock returns the open and locked file, or nil if another process has locked it.
func tryLock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}

	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !isAt(file, path) {
		_ = file.Close()
		return nil, nil
	}

	return file, nil
}

// isAt returns whether the file still has the path. `down` removes the file, and the next command creates another one.
func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}

	current, err := os.Stat(path)

	return err == nil && os.SameFile(opened, current)
}
