// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package gardener runs the control plane of Gardener in a garden, and installs gardenlet in a cluster that becomes its seed. Its manifests
// also contain what stands in for a cloud: addresses of load balancers and DNS records. A simulated node runs the components without a program here.
package gardener

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

//go:embed manifests
var manifests embed.FS

// Names of the processes and of the objects.
const (
	apiServer         = "gardener-apiserver"
	controllerManager = "gardener-controller-manager"
	// Namespace and ShootName are those of the Shoot. SeedName is the name of the only Seed.
	Namespace = "garden-local"
	ShootName = "local"
	SeedName  = "local"
	// TechnicalID is the namespace of the Shoot's control plane in the seed.
	TechnicalID = "shoot--local--" + ShootName

	local = "gardener-extension-provider-local"
)

// Manager starts the processes of a garden and installs gardenlet in another cluster.
type Manager struct {
	// Garden is the layout of the cluster with Gardener's API. Shoots is that of the seed.
	Garden, Shoots layout.Layout
	// Processes are those of the garden.
	Processes process.Table
	// Programs maps names to the paths of the programs.
	Programs map[string]string
	// Gardener is the directory of the Gardener module.
	Gardener string
	// ImageVector names the images of etcd. gardenlet passes it to its etcd-druid.
	ImageVector string
}

// EnsureAPIServer starts gardener-apiserver, and registers its APIs at the kube-apiserver of the garden.
func (m Manager) EnsureAPIServer(ctx context.Context) error {
	kubeconfig := m.Garden.Kubeconfig()
	args := []string{
		m.Programs[apiServer],
		fmt.Sprintf("--secure-port=%d", m.Garden.GardenerAPIPort()),
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", m.Garden.EtcdClientPort()),
		"--tls-cert-file=" + filepath.Join(m.Garden.PKI(), "apiserver.crt"),
		"--tls-private-key-file=" + filepath.Join(m.Garden.PKI(), "apiserver.key"),
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--cluster-identity=garden",
	}

	if err := m.Processes.Ensure(ctx, process.Spec{Name: apiServer, Args: args}); err != nil {
		return err
	}

	return m.apply(ctx, m.Garden, "apis.yaml")
}

// CheckAlive returns an error with the end of the log if a process of the garden has ended.
func (m Manager) CheckAlive() error { return m.Processes.CheckAlive(apiServer, controllerManager) }

// EnsureGarden starts gardener-controller-manager, and applies what an operator of a garden creates before the first Seed.
func (m Manager) EnsureGarden(ctx context.Context) error {
	config, err := m.write(ctx, m.Garden, "controller-manager.yaml")
	if err != nil {
		return err
	}

	if err := m.apply(ctx, m.Garden, "garden.yaml"); err != nil {
		return err
	}

	return m.Processes.Ensure(ctx, process.Spec{Name: controllerManager, Args: []string{m.Programs[controllerManager], "--config=" + config}, Inputs: []string{config}})
}

// RegisterOperator applies the registration of the operator in the checkout, which contains its chart, with these values.
func (m Manager) RegisterOperator(ctx context.Context, source string, values map[string]any) error {
	registration, err := m.registration(source, values)
	if err != nil {
		return err
	}

	if err := m.kubectl(ctx, m.Garden, "apply", "--server-side", "--force-conflicts", "--filename="+registration); err != nil {
		return fmt.Errorf("registering the operator: %w", err)
	}

	return nil
}

// registration writes the registration of the operator with other values of its chart to a file, and returns the path of the file.
func (m Manager) registration(source string, values map[string]any) (string, error) {
	content, err := os.ReadFile(filepath.Join(source, "example", "controller-registration.yaml"))
	if err != nil {
		return "", err
	}

	documents := bytes.Split(content, []byte("\n---\n"))

	for i, document := range documents {
		var object map[string]any
		if err := yaml.Unmarshal(document, &object); err != nil {
			return "", err
		}

		helm, is := object["helm"].(map[string]any)
		if !is {
			continue
		}

		helm["values"] = values
		if documents[i], err = json.Marshal(object); err != nil { // JSON is YAML
			return "", err
		}
	}

	path := filepath.Join(m.Garden.Run, "controller-registration.yaml")

	return path, os.WriteFile(path, bytes.Join(documents, []byte("\n---\n")), 0o600)
}

// pack returns the packed chart of Gardener, in base64.
func (m Manager) pack(ctx context.Context, chart string) (string, error) {
	dir, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	if err := process.Run(ctx, m.Programs["helm"], "package", m.chart(chart), "--destination="+dir); err != nil {
		return "", fmt.Errorf("packing the chart %s: %w", chart, err)
	}

	files, _ := filepath.Glob(filepath.Join(dir, "*.tgz")) // the pattern is valid
	if len(files) != 1 {
		return "", fmt.Errorf("packing the chart %s: found %d packages", chart, len(files))
	}

	content, err := os.ReadFile(files[0])

	return base64.StdEncoding.EncodeToString(content), err
}

func (m Manager) chart(name string) string {
	return filepath.Join(m.Gardener, "charts", "gardener", name)
}

// apis are the groups of gardener-apiserver, without the suffix that they share. kubectl prefers the version with the highest priority.
var apis = []struct {
	Group, Version string
	Priority       int
}{
	{"core", "v1", 10}, {"core", "v1beta1", 100}, {"seedmanagement", "v1alpha1", 100}, {"operations", "v1alpha1", 100}, {"security", "v1alpha1", 100},
}

// APIs returns the paths of the APIs at the kube-apiserver of the garden.
func (m Manager) APIs() []string {
	var paths []string
	for _, api := range apis {
		paths = append(paths, "/apis/"+api.Group+".gardener.cloud/"+api.Version)
	}

	return paths
}

// crds are the CustomResourceDefinitions that the stand-ins watch from their start, and which gardenlet expects if it does not deploy them.
var crds = []string{
	"autoscaling.k8s.io_verticalpodautoscalers", "autoscaling.k8s.io_verticalpodautoscalercheckpoints", "extensions.gardener.cloud_dnsrecords",
	"monitoring.coreos.com_prometheuses",
}

// PrepareSeed creates what the stand-ins need in the cluster that becomes a seed.
func (m Manager) PrepareSeed(ctx context.Context) error {
	args := []string{"apply", "--server-side", "--force-conflicts"}
	for _, crd := range crds {
		args = append(args, "--filename="+filepath.Join(m.Gardener, "example", "seed-crds", "10-crd-"+crd+".yaml"))
	}

	if err := m.kubectl(ctx, m.Shoots, args...); err != nil {
		return fmt.Errorf("applying CustomResourceDefinitions: %w", err)
	}

	return m.apply(ctx, m.Shoots, "seed.yaml")
}

// Stages writes the file with the changes that KWOK simulates in the seed, and returns its path.
func (m Manager) Stages() (string, error) {
	content, err := manifests.ReadFile("manifests/stages.yaml")
	if err != nil {
		return "", err
	}

	path := filepath.Join(m.Shoots.Run, "stages.yaml")

	return path, os.WriteFile(path, content, 0o600)
}

// InstallGardenlet installs gardenlet from its chart.
func (m Manager) InstallGardenlet(ctx context.Context) error {
	values, err := m.write(ctx, m.Shoots, "gardenlet.yaml")
	if err != nil {
		return err
	}

	if err := process.Run(ctx, m.Programs["helm"], "upgrade", "--install", "gardenlet", m.chart("gardenlet"), "--namespace=garden", "--create-namespace",
		"--kubeconfig="+m.Shoots.Kubeconfig(), "--values="+values, "--take-ownership"); err != nil {
		return fmt.Errorf("installing gardenlet: %w", err)
	}

	return nil
}

// CreateShoot creates the Shoot, or leaves it as it is.
func (m Manager) CreateShoot(ctx context.Context) error { return m.apply(ctx, m.Garden, "shoot.yaml") }

// AllowAccess allows this machine to reach the API server of the Shoot, which must have a namespace in the seed.
func (m Manager) AllowAccess(ctx context.Context) error { return m.apply(ctx, m.Shoots, "access.yaml") }

// apply fills a manifest and applies it to the cluster.
func (m Manager) apply(ctx context.Context, cluster layout.Layout, name string) error {
	path, err := m.write(ctx, cluster, name)
	if err != nil {
		return err
	}

	if err := m.kubectl(ctx, cluster, "apply", "--server-side", "--force-conflicts", "--filename="+path); err != nil {
		return fmt.Errorf("applying %s to the cluster %s: %w", name, cluster.Name(), err)
	}

	return nil
}

// write fills a manifest and writes it to the directory of the cluster.
func (m Manager) write(ctx context.Context, cluster layout.Layout, name string) (string, error) {
	text, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return "", err
	}

	parsed, err := template.New(name).Funcs(template.FuncMap{"pack": func(chart string) (string, error) { return m.pack(ctx, chart) }}).Parse(string(text))
	if err != nil {
		return "", fmt.Errorf("reading the manifest %s: %w", name, err)
	}

	authority, err := os.ReadFile(filepath.Join(m.Garden.PKI(), "ca.crt"))
	if err != nil {
		return "", err
	}

	kubeconfig, err := os.ReadFile(m.Garden.Kubeconfig())
	if err != nil {
		return "", err
	}

	var content bytes.Buffer
	if err := parsed.Execute(&content, map[string]any{
		"Garden": m.Garden, "Shoots": m.Shoots, "Authority": base64.StdEncoding.EncodeToString(authority), "Kubeconfig": string(compact(kubeconfig)),
		"Version": build.GardenerVersion, "Kubernetes": build.KubernetesVersion, "Zone": "zone-" + m.Shoots.Node(1).Name(),
		"Namespace": Namespace, "Shoot": ShootName, "Technical": TechnicalID, "Seed": SeedName, "Local": local, "APIs": apis,
		"ImageVector": m.ImageVector,
		"Kinds":       []string{"BackupBucket", "BackupEntry", "ControlPlane", "DNSRecord", "Infrastructure", "OperatingSystemConfig", "Worker"},
	}); err != nil {
		return "", fmt.Errorf("filling the manifest %s: %w", name, err)
	}

	path := filepath.Join(cluster.Run, name)

	return path, os.WriteFile(path, content.Bytes(), 0o600)
}

// compact returns the JSON in one line. Other content is returned unchanged.
func compact(content []byte) []byte {
	var line bytes.Buffer
	if json.Compact(&line, content) != nil {
		return content
	}

	return line.Bytes()
}

func (m Manager) kubectl(ctx context.Context, cluster layout.Layout, args ...string) error {
	return process.Run(ctx, append([]string{m.Programs["kubectl"], "--kubeconfig=" + cluster.Kubeconfig()}, args...)...)
}
