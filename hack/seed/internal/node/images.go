// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

// Import loads a docker archive into the node's containerd.
func (m Manager) Import(ctx context.Context, n layout.Node, archive string) error {
	if err := process.Run(ctx, "ctr", "-a", m.Layout.Socket(n), "-n", "k8s.io", "images", "import", archive); err != nil {
		return fmt.Errorf("loading %s into node %s: %w", filepath.Base(archive), n.Name(), err)
	}

	return nil
}

// EnsureImages loads the archives that the node does not have yet. Archives with different contents have different
// names.
func (m Manager) EnsureImages(ctx context.Context, n layout.Node, archives []string) error {
	dir := filepath.Join(m.Layout.NodeDir(n), "loaded")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	for _, archive := range archives {
		mark := filepath.Join(dir, filepath.Base(archive))
		if _, err := os.Stat(mark); err == nil {
			continue
		}

		if err := m.Import(ctx, n, archive); err != nil {
			return err
		}

		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return err
		}
	}

	return nil
}
