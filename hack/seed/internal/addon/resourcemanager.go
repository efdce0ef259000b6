// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package addon

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

// ResourceManagerUser is the user of gardener-resource-manager at the API server: its ServiceAccount on a seed.
const ResourceManagerUser = "system:serviceaccount:garden:gardener-resource-manager"

// roleLabel is a label of all namespaces that Gardener creates.
const roleLabel = "gardener.cloud/role"

// ensureResourceManager starts gardener-resource-manager with the configuration that gardenlet writes.
func (m Manager) ensureResourceManager(ctx context.Context) error {
	certificates := filepath.Join(m.Layout.Run, "resource-manager-certs")
	if err := os.MkdirAll(certificates, 0o700); err != nil {
		return err
	}

	for from, to := range map[string]string{"apiserver.crt": "tls.crt", "apiserver.key": "tls.key"} {
		content, err := os.ReadFile(m.file(from))
		if err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(certificates, to), content, 0o600); err != nil { // #nosec G703 -- a folder of the seed
			return err
		}
	}

	kubeconfig := m.file("resource-manager.kubeconfig")

	content, err := resourceManagerConfig(kubeconfig, certificates, m.Layout.Cluster)
	if err != nil {
		return err
	}

	config := filepath.Join(m.Layout.Run, "resource-manager-config.yaml")
	if err := os.WriteFile(config, content, 0o600); err != nil {
		return err
	}

	return m.Processes.Ensure(ctx, process.Spec{
		Name:   resourceManager,
		Args:   []string{m.ResourceManager, "--config=" + config},
		Inputs: []string{config, kubeconfig},
	})
}

// resourceManagerConfig returns the configuration that gardenlet writes, with changes for the only instance outside of a pod.
func resourceManagerConfig(kubeconfig, certificates string, cluster layout.Cluster) ([]byte, error) {
	content, err := manifests.ReadFile("manifests/resource-manager-config.golden.yaml")
	if err != nil {
		return nil, err
	}

	config := map[string]any{}
	if err := yaml.Unmarshal(content, &config); err != nil {
		return nil, fmt.Errorf("reading the configuration of gardener-resource-manager: %w", err)
	}

	const loopback = "127.0.0.1"

	config["sourceClientConnection"] = map[string]any{"kubeconfig": kubeconfig}
	config["targetClientConnection"] = config["sourceClientConnection"] // both are the same cluster, as in a pod by default
	config["leaderElection"] = map[string]any{"leaderElect": false}
	config["server"] = map[string]any{
		"healthProbes": map[string]any{"bindAddress": loopback, "port": cluster.ResourceManagerHealthPort()},
		"metrics":      map[string]any{"bindAddress": loopback, "port": cluster.ResourceManagerMetricsPort()},
		"webhooks":     map[string]any{"bindAddress": loopback, "port": cluster.ResourceManagerWebhookPort(), "tls": map[string]any{"serverCertDir": certificates}},
	}

	return yaml.Marshal(config)
}

// writeWebhooks writes the manifest with the webhooks of gardener-resource-manager, and returns its path.
func (m Manager) writeWebhooks() (string, error) {
	authority, err := os.ReadFile(m.file("ca.crt"))
	if err != nil {
		return "", err
	}

	content, err := resourceManagerWebhooks(authority, m.Layout.ResourceManagerWebhookPort())
	if err != nil {
		return "", err
	}

	path := filepath.Join(m.Layout.Run, "resource-manager-webhooks.yaml")

	return path, os.WriteFile(path, content, 0o600)
}

// resourceManagerWebhooks returns the webhooks that gardenlet registers. The API server calls them on the loopback interface, because
// gardener-resource-manager does not run in a pod. The validating webhooks select only the namespaces that Gardener creates: other
// namespaces of the seed contain Etcds as on a cluster without Gardener.
func resourceManagerWebhooks(authority []byte, port int) ([]byte, error) {
	content, err := manifests.ReadFile("manifests/resource-manager-webhooks.golden.yaml")
	if err != nil {
		return nil, err
	}

	var manifests [][]byte

	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var configuration struct {
			APIVersion string           `json:"apiVersion"`
			Kind       string           `json:"kind"`
			Metadata   map[string]any   `json:"metadata"`
			Webhooks   []map[string]any `json:"webhooks"`
		}
		if err := yaml.Unmarshal(document, &configuration); err != nil {
			return nil, fmt.Errorf("reading the webhooks of gardener-resource-manager: %w", err)
		}

		delete(configuration.Metadata, "namespace") // the kinds are cluster-scoped

		for _, webhook := range configuration.Webhooks {
			service := webhook["clientConfig"].(map[string]any)["service"].(map[string]any)
			webhook["clientConfig"] = map[string]any{"url": fmt.Sprintf("https://127.0.0.1:%d%s", port, service["path"]), "caBundle": authority}

			if configuration.Kind == "ValidatingWebhookConfiguration" {
				webhook["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": roleLabel, "operator": "Exists"}}}
			}
		}

		manifest, err := yaml.Marshal(configuration)
		if err != nil {
			return nil, err
		}

		manifests = append(manifests, manifest)
	}

	return bytes.Join(manifests, []byte("---\n")), nil
}

// missingResourceManager returns why gardener-resource-manager is not ready. Empty means that it is ready, and serves its webhooks.
func (m Manager) missingResourceManager(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", m.Layout.ResourceManagerHealthPort()), nil)
	if err != nil {
		return "", err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "not listening yet", nil
	}

	_ = response.Body.Close()

	if response.StatusCode != http.StatusOK {
		return response.Status, nil
	}

	return "", nil
}
