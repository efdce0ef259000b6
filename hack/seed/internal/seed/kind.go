// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

const kindName = "etcd-druid"

// kindPaths are the files of the cluster that kind runs. They are independent of the seed.
type kindPaths struct{ kubeconfig, localStore, values string }

func (s *Seed) kindPaths() kindPaths {
	dir := filepath.Join(s.Layout.Cache, "kind")

	return kindPaths{
		kubeconfig: filepath.Join(dir, "kubeconfig"),
		localStore: filepath.Join(dir, "local-store"),
		values:     filepath.Join(s.Layout.Root, "test", "e2e", "values.yaml"),
	}
}

// kindTemplate is the configuration of kind: a control plane and three workers, each in its own zone. All nodes share a directory of the host
// for stores with the provider Local.
//
//go:embed kind.yaml
var kindTemplate string

func kindConfig(localStore string) string {
	return strings.NewReplacer("HOST", localStore, "STORE", layout.LocalStore, "NAME", kindName).Replace(kindTemplate)
}

// KindUp creates a cluster with kind, and installs the operator of this checkout with the published images of the image vector. A
// second call deploys the operator again. With dryRun it only prints the configuration and the steps.
func (s *Seed) KindUp(ctx context.Context, dryRun bool, out io.Writer) error {
	paths := s.kindPaths()

	if dryRun {
		_, err := fmt.Fprintf(out, "%s---\n# kubeconfig: %s\n# helm %q\n", kindConfig(paths.localStore), paths.kubeconfig,
			chartArguments(s.Layout.Root, paths.kubeconfig, kindValues(paths, "TAG")...))

		return err
	}

	if err := checkEngine(); err != nil {
		return err
	}

	if err := s.Builder.Ensure(ctx, false, build.Helm, build.Kind); err != nil {
		return err
	}

	archive, tag, err := s.packOperator(ctx)
	if err != nil {
		return err
	}

	if err := s.ensureKind(ctx, paths); err != nil {
		return err
	}

	if err := s.kind(ctx, "load", "image-archive", archive); err != nil {
		return err
	}

	if err := s.installChart(ctx, s.Layout.Root, paths.kubeconfig, append(kindValues(paths, tag), "--wait", "--timeout="+rolloutTimeout.String())...); err != nil {
		return err
	}

	_, err = fmt.Fprintf(out, "The operator is installed. To run the end-to-end tests on the cluster:\n  KUBECONFIG=%s make test-e2e\n", paths.kubeconfig)

	return err
}

// ensureKind creates the cluster if it does not exist, and writes its kubeconfig.
func (s *Seed) ensureKind(ctx context.Context, paths kindPaths) error {
	if err := os.MkdirAll(paths.localStore, 0o755); err != nil {
		return err
	}

	program, err := s.Builder.Program(build.Kind, "kind")
	if err != nil {
		return err
	}

	names, err := process.Output(ctx, program, "get", "clusters")
	if err != nil {
		return fmt.Errorf("%w; check that the container engine runs, or use the local seed with `make up`", err)
	}

	if slices.Contains(strings.Fields(names), kindName) {
		return s.kind(ctx, "export", "kubeconfig", "--kubeconfig="+paths.kubeconfig)
	}

	config := paths.kubeconfig + ".kind.yaml"
	if err := os.WriteFile(config, []byte(kindConfig(paths.localStore)), 0o600); err != nil {
		return err
	}

	return s.kind(ctx, "create", "cluster", "--config="+config, "--kubeconfig="+paths.kubeconfig, "--wait=5m")
}

// KindDown deletes the cluster. It keeps the directory of the Local store.
func (s *Seed) KindDown(ctx context.Context) error {
	if err := checkEngine(); err != nil {
		return err
	}

	if err := s.Builder.Ensure(ctx, false, build.Kind); err != nil {
		return err
	}

	return s.kind(ctx, "delete", "cluster", "--kubeconfig="+s.kindPaths().kubeconfig)
}

// kind runs kind for the cluster, and shows its output.
func (s *Seed) kind(ctx context.Context, args ...string) error {
	program, err := s.Builder.Program(build.Kind, "kind")
	if err != nil {
		return err
	}

	command := exec.CommandContext(ctx, program, append(args, "--name="+kindName)...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr

	if err := command.Run(); err != nil {
		return fmt.Errorf("kind %s %s: %w", args[0], args[1], err)
	}

	return nil
}

// checkEngine returns an error with the remedy if this machine has no container engine.
func checkEngine() error {
	for _, engine := range []string{"docker", "podman", "nerdctl"} {
		if _, err := exec.LookPath(engine); err == nil {
			return nil
		}
	}

	return errors.New("kind needs docker, podman or nerdctl, and this machine has none: install one, or use the local seed with `make up`")
}

// kindValues returns the arguments of Helm with the values of the chart: those of the end-to-end tests, and the operator's image.
func kindValues(paths kindPaths, tag string) []string {
	return []string{"--values=" + paths.values, "--set=image.repository=" + image.OperatorRepository, "--set=image.tag=" + tag}
}
