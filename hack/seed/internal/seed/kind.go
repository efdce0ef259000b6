// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/kind"
)

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

// KindUp creates a cluster with kind, and installs the operator of this checkout with the published images of the image vector. A
// second call deploys the operator again. With dryRun it only prints the configuration and the steps.
func (s *Seed) KindUp(ctx context.Context, dryRun bool, out io.Writer) error {
	paths := s.kindPaths()
	config := kind.Config(paths.localStore)

	if dryRun {
		return s.printKind(paths, out)
	}

	cluster, err := kind.Find()
	if err != nil {
		return err
	}

	if err := s.Builder.Ensure(ctx, build.Helm); err != nil {
		return err
	}

	archive, tag, err := s.packOperator(ctx)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(paths.localStore, 0o755); err != nil {
		return err
	}

	if err := cluster.Ensure(config, paths.kubeconfig); err != nil {
		return err
	}

	if err := cluster.Load(archive); err != nil {
		return err
	}

	if err := s.installChart(ctx, s.Layout.Root, paths.kubeconfig, append(kindValues(paths, tag), "--wait", "--timeout="+rolloutTimeout.String())...); err != nil {
		return err
	}

	_, err = fmt.Fprintf(out, "The operator is installed. To run the end-to-end tests on the cluster:\n  KUBECONFIG=%s make test-e2e\n", paths.kubeconfig)

	return err
}

// KindDown deletes the cluster. It keeps the directory of the Local store.
func (s *Seed) KindDown() error {
	cluster, err := kind.Find()
	if err != nil {
		return err
	}

	return cluster.Delete(s.kindPaths().kubeconfig)
}

// kindValues returns the arguments of Helm with the values of the chart: those of the end-to-end tests, and the operator's image.
func kindValues(paths kindPaths, tag string) []string {
	return []string{"--values=" + paths.values, "--set=image.repository=" + image.OperatorRepository, "--set=image.tag=" + tag}
}

func (s *Seed) printKind(paths kindPaths, out io.Writer) error {
	content, err := json.Marshal(kind.Config(paths.localStore))
	if err != nil {
		return err
	}

	if content, err = yaml.JSONToYAML(content); err != nil {
		return err
	}

	_, err = fmt.Fprintf(out, "%s---\n# kubeconfig: %s\n# helm %q\n", content, paths.kubeconfig, chartArguments(s.Layout.Root, paths.kubeconfig, kindValues(paths, "TAG")...))

	return err
}
