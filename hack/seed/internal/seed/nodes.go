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

// LoadImages loads docker archives into every node. Without archives it builds the operator and loads its image.
func (s *Seed) LoadImages(ctx context.Context, archives []string) error {
	nodes := s.existingNodes()
	if len(nodes) == 0 {
		return fmt.Errorf("there are no nodes; start the cluster with %s", s.start())
	}

	if len(archives) == 0 {
		tag, err := s.loadOperator(ctx, "")
		if err == nil {
			s.Out.Println("loaded %s:%s; `deploy` starts it", image.OperatorRepository, tag)
		}

		return err
	}

	for _, archive := range archives {
		if _, err := os.Stat(archive); err != nil {
			return err
		}
	}

	return forEach(nodes, func(n layout.Node) error {
		for _, archive := range archives {
			if err := s.nodes.Import(ctx, n, archive); err != nil {
				return err
			}
		}

		return nil
	})
}

// loadOperator builds the operator from the source and loads its image into every node. It returns the tag of the image. An empty
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

	return tag, forEach(s.existingNodes(), func(n layout.Node) error { return s.nodes.EnsureImages(ctx, n, []string{archive}) })
}

// packOperator builds the operator and packs its image. It returns the path of the archive and the tag of the image.
func (s *Seed) packOperator(ctx context.Context) (archive, tag string, err error) {
	programs, err := s.Builder.Operator(ctx)
	if err != nil {
		return "", "", err
	}

	return s.packPrograms(programs)
}

// packOther does the same with the operator of another checkout.
func (s *Seed) packOther(ctx context.Context, source string) (archive, tag string, err error) {
	dir, err := os.MkdirTemp("", "operator-")
	if err != nil {
		return "", "", fmt.Errorf("creating a directory for the build: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	if err := s.Builder.At(source).OperatorIn(ctx, dir); err != nil {
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
	archives := filepath.Join(s.Layout.Images(), "operator")

	archive, err = image.Ensure(spec, archives)
	if err != nil {
		return "", "", err
	}

	if err := image.KeepOnly(archives, archive); err != nil {
		return "", "", err
	}

	_, tag, err = image.SplitTag(spec.Tag)
	if err != nil {
		return "", "", err
	}

	return archive, tag, nil
}

// PackObjectStore builds the object store, packs its image, and returns the path of the archive. `up` does not call it: an Etcd with a
// Local store needs no object store, whose first build takes a minute.
func (s *Seed) PackObjectStore(ctx context.Context) (string, error) {
	if err := s.Builder.Ensure(ctx, build.ObjectStore); err != nil {
		return "", err
	}

	spec, err := image.ObjectStore(s.Builder)
	if err != nil {
		return "", err
	}

	dir := filepath.Join(s.Layout.Images(), "object-store")

	archive, err := image.Ensure(spec, dir)
	if err != nil {
		return "", err
	}

	return archive, image.KeepOnly(dir, archive)
}

// LoadObjectStore loads the image of the object store into every node that does not have it.
func (s *Seed) LoadObjectStore(ctx context.Context) error {
	nodes := s.existingNodes()
	if len(nodes) == 0 {
		return fmt.Errorf("no node to load the object store into; start one with %s", s.start())
	}

	archive, err := s.PackObjectStore(ctx)
	if err != nil {
		return err
	}

	return forEach(nodes, func(n layout.Node) error { return s.nodes.EnsureImages(ctx, n, []string{archive}) })
}

// PackOperator builds the operator and writes its image to the file as a docker archive. It does not need a seed.
func (s *Seed) PackOperator(ctx context.Context, file string) error {
	dir, err := os.MkdirTemp("", "operator-")
	if err != nil {
		return fmt.Errorf("creating a directory for the build: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	if err := s.Builder.OperatorIn(ctx, dir); err != nil {
		return err
	}

	spec, err := image.Operator(dir)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("creating the directory of the image: %w", err)
	}

	return image.Pack(spec, file)
}

// LogPath returns the log file of a process, or an error that lists those that exist.
func (s *Seed) LogPath(name string) (string, error) {
	path := s.processes.Log(name)
	if _, err := os.Stat(path); name == "" || err != nil {
		return "", fmt.Errorf("unknown process %q; the processes are: %s", name, strings.Join(s.processes.Names(), ", "))
	}

	return path, nil
}
