// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
)

// Assets builds the programs that integration tests start, and returns a directory with links to them.
func (s *Seed) Assets(ctx context.Context) (string, error) {
	if err := s.Builder.Ensure(ctx, false, build.Etcd, build.Kubernetes, build.BackupRestore); err != nil {
		return "", err
	}

	dir := filepath.Join(s.Layout.Cache, "envtest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}

	for module, programs := range map[string][]string{build.Etcd: {"etcd"}, build.Kubernetes: {"kube-apiserver", "kubectl"}, build.BackupRestore: {"etcdbrctl"}} {
		for _, name := range programs {
			target, err := s.Builder.Program(module, name)
			if err != nil {
				return "", err
			}

			if err := link(target, filepath.Join(dir, name)); err != nil {
				return "", err
			}
		}
	}

	return dir, nil
}

// link replaces a link atomically, since tests may use it.
func link(target, path string) error {
	if current, err := os.Readlink(path); err == nil && current == target {
		return nil
	}

	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	if err := os.Symlink(target, temporary); err != nil {
		return err
	}

	return os.Rename(temporary, path)
}
