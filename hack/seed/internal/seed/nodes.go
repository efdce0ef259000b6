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

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/network"
)

// Partition disconnects the node from the network. Its pods continue to run. Heal connects the node again.
func (s *Seed) Partition(ctx context.Context, name string) error {
	return s.setConnected(ctx, name, false)
}

// Heal ends a partition.
func (s *Seed) Heal(ctx context.Context, name string) error { return s.setConnected(ctx, name, true) }

func (s *Seed) setConnected(ctx context.Context, name string, connected bool) error {
	n, err := s.Layout.ParseNode(name)
	if err != nil {
		return err
	}

	return network.SetConnected(ctx, n, connected)
}

// StopNode stops the node as a power cut does. Its volumes and images stay. StartNode starts it again.
func (s *Seed) StopNode(ctx context.Context, name string) error {
	n, err := s.Layout.ParseNode(name)
	if err != nil {
		return err
	}

	return s.nodes.Stop(ctx, n)
}

// StartNode starts a stopped node and waits until it is Ready.
func (s *Seed) StartNode(ctx context.Context, name string) error {
	n, err := s.Layout.ParseNode(name)
	if err != nil {
		return err
	}

	if err := s.nodes.EnsureRuntime(ctx, n); err != nil {
		return err
	}

	if err := s.nodes.EnsureKubelet(ctx, n); err != nil {
		return err
	}

	if err := s.waitForNodes(ctx, []layout.Node{n}); err != nil {
		return err
	}

	return s.enforceNetworkPolicies(ctx, []layout.Node{n})
}

// loadArchives loads the archives into every node that does not have them.
func (s *Seed) loadArchives(ctx context.Context, archives ...string) error {
	return forEach(s.existingNodes(), func(n layout.Node) error { return s.nodes.EnsureImages(ctx, n, archives) })
}

// loadOperator builds the operator of the checkout at source and loads its image into every node. It returns the tag of the image. An empty
// source is this checkout.
func (s *Seed) loadOperator(ctx context.Context, source string) (string, error) {
	pack := s.packOperator
	if source != "" {
		pack = func(ctx context.Context) (archive, tag string, err error) { return s.packOther(ctx, source) }
	}

	archive, tag, err := pack(ctx)
	if err != nil {
		return "", err
	}

	return tag, s.loadArchives(ctx, archive)
}

// packOperator builds the operator and packs its image. It returns the path of the archive and the tag of the image.
func (s *Seed) packOperator(ctx context.Context) (archive, tag string, err error) {
	if !s.built {
		s.Out.Println("building the operator and kubectl-etcd")

		if err := s.Builder.Operator(ctx, s.Layout.Root, s.Builder.CommandDir()); err != nil {
			return "", "", err
		}
	}

	return s.packPrograms(s.Builder.CommandDir())
}

// packOther does the same with the operator of another checkout, in a directory of its own.
func (s *Seed) packOther(ctx context.Context, source string) (archive, tag string, err error) {
	dir, err := os.MkdirTemp("", "operator-")
	if err != nil {
		return "", "", fmt.Errorf("creating a directory for the build: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	s.Out.Println("building the operator of %s", source)

	if err := s.Builder.Operator(ctx, source, dir); err != nil {
		return "", "", err
	}

	return s.packPrograms(dir)
}

func (s *Seed) packPrograms(dir string) (archive, tag string, err error) {
	spec, err := image.Operator(dir)
	if err != nil {
		return "", "", err
	}

	// Every change of the code creates another archive. Only the last one is kept.
	archives, err := image.EnsureAll([]image.Spec{spec}, filepath.Join(s.Layout.Images(), "operator"))
	if err != nil {
		return "", "", err
	}

	_, tag, err = image.SplitTag(spec.Tag)

	return archives[0], tag, err
}

// LoadTestImages builds what only tests need, the object store and the wrapper around etcd 3.5, and loads the images into every node.
func (s *Seed) LoadTestImages(ctx context.Context) error {
	if len(s.existingNodes()) == 0 {
		return fmt.Errorf("there are no nodes to load images into; start the cluster with %s", s.start())
	}

	if err := s.Builder.Ensure(ctx, false, build.ObjectStore, build.EtcdWrapper35); err != nil {
		return err
	}

	specs, err := image.TestCatalogue(s.Builder)
	if err != nil {
		return err
	}

	archives, err := image.EnsureAll(specs, filepath.Join(s.Layout.Images(), "test"))
	if err != nil {
		return err
	}

	return s.loadArchives(ctx, archives...)
}

// PackOperator builds the operator and writes its image to the file as a docker archive. It does not need a seed.
func (s *Seed) PackOperator(ctx context.Context, file string) error {
	archive, _, err := s.packOther(ctx, s.Layout.Root)
	if err != nil {
		return err
	}

	content, err := os.ReadFile(archive) // #nosec G304 -- an archive in the cache
	if err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("creating the directory of the image: %w", err)
	}

	return os.WriteFile(file, content, 0o644) // #nosec G306 -- an image is not secret
}

// LogPath returns the log file of a process, or an error that lists those that exist.
func (s *Seed) LogPath(name string) (string, error) {
	path := s.processes.Log(name)
	if _, err := os.Stat(path); name == "" || err != nil {
		return "", fmt.Errorf("unknown process %q; the processes are: %s", name, strings.Join(s.processes.Names(), ", "))
	}

	return path, nil
}
