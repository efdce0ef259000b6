// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package addon installs what the operator needs on a cluster: DNS and a StorageClass with its provisioner. On the seed it also installs
// some of Gardener's CustomResourceDefinitions and gardener-resource-manager, as on every Gardener seed.
package addon

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

//go:embed manifests
var manifests embed.FS

// Names of the processes.
const (
	provisioner     = "provisioner"
	resourceManager = "gardener-resource-manager"
	kwok            = "kwok"
)

// Manager installs the add-ons, and runs those that are processes of this machine.
type Manager struct {
	Layout    layout.Layout
	Processes process.Table
	// Kubectl, Provisioner, ResourceManager and Kwok are the paths of the programs. Gardener is the directory of the Gardener
	// module.
	Kubectl, Provisioner, ResourceManager, Kwok, Gardener string
}

// crds are the files of the Gardener module with the CustomResourceDefinitions that the operator and its users need.
var crds = []string{
	"example/resource-manager/10-crd-resources.gardener.cloud_managedresources.yaml",
	"example/seed-crds/10-crd-extensions.gardener.cloud_backupbuckets.yaml",
	"example/seed-crds/10-crd-extensions.gardener.cloud_backupentries.yaml",
	"example/seed-crds/10-crd-extensions.gardener.cloud_clusters.yaml",
}

// EnsureManifests applies the CustomResourceDefinitions and manifests, and waits until the CustomResourceDefinitions
// are established.
func (m Manager) EnsureManifests(ctx context.Context) error {
	args := []string{"apply", "--server-side", "--force-conflicts"}

	if m.Layout.HasResourceManager() {
		for _, crd := range crds {
			args = append(args, "-f", filepath.Join(m.Gardener, crd))
		}

		webhooks, err := m.writeWebhooks()
		if err != nil {
			return err
		}

		args = append(args, "-f", webhooks)
	}

	names := []string{"storage.yaml", "coredns.yaml"}
	if m.Layout.Cluster == layout.Bench {
		names = names[:1] // no pod of this cluster resolves names
	}

	for _, name := range names {
		path, err := m.render(name)
		if err != nil {
			return err
		}

		args = append(args, "-f", path)
	}

	if err := m.kubectl(ctx, args...); err != nil {
		return fmt.Errorf("applying the add-ons: %w", err)
	}

	if !m.Layout.HasResourceManager() {
		return nil
	}

	return m.kubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
}

// EnsureProcesses starts the provisioner and gardener-resource-manager.
func (m Manager) EnsureProcesses(ctx context.Context) error {
	if err := os.MkdirAll(m.Layout.Volumes(), 0o755); err != nil {
		return err
	}

	if err := m.Processes.Ensure(ctx, process.Spec{Name: provisioner, Args: []string{
		m.Provisioner, "-kubeconfig=" + m.file("provisioner.kubeconfig"), "-dir=" + m.Layout.Volumes(),
	}}); err != nil {
		return err
	}

	if !m.Layout.HasResourceManager() {
		return nil
	}

	return m.ensureResourceManager(ctx)
}

// Missing returns why gardener-resource-manager is not ready. Empty means that it is ready, or that the cluster has
// none.
func (m Manager) Missing(ctx context.Context) (string, error) {
	if !m.Layout.HasResourceManager() {
		return "", m.Processes.CheckAlive(provisioner)
	}

	if err := m.Processes.CheckAlive(resourceManager, provisioner); err != nil {
		return "", err
	}

	return m.missingResourceManager(ctx)
}

// Stop ends the processes.
func (m Manager) Stop(ctx context.Context) error {
	return errors.Join(
		m.Processes.Stop(ctx, kwok, 5*time.Second),
		m.Processes.Stop(ctx, resourceManager, 5*time.Second),
		m.Processes.Stop(ctx, provisioner, 5*time.Second),
	)
}

// render fills a manifest and writes it to the directory of the cluster.
func (m Manager) render(name string) (string, error) {
	text, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return "", err
	}

	parsed, err := template.New(name).Parse(string(text))
	if err != nil {
		return "", fmt.Errorf("reading the manifest %s: %w", name, err)
	}

	var content strings.Builder

	err = parsed.Execute(&content, map[string]any{
		"Run": m.Layout.Run, "Gardener": m.Layout.Cluster != layout.Bare, "DNS": m.Layout.DNSIP(), "CorednsImage": image.CorednsTag,
	})
	if err != nil {
		return "", fmt.Errorf("filling the manifest %s: %w", name, err)
	}

	path := filepath.Join(m.Layout.Run, name)

	return path, os.WriteFile(path, []byte(content.String()), 0o644)
}

func (m Manager) kubectl(ctx context.Context, args ...string) error {
	return process.Run(ctx, append([]string{m.Kubectl, "--kubeconfig=" + m.Layout.Kubeconfig()}, args...)...)
}

func (m Manager) file(name string) string { return filepath.Join(m.Layout.PKI(), name) }
