// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/addon"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

const (
	// operatorName is the name of the Helm release, the chart and the Deployment.
	operatorName      = "gardener-extension-etcd-druid"
	operatorNamespace = "extension-etcd-druid"
	rolloutTimeout    = 2 * time.Minute

	// exemptUser is the user whom the protection exempts. The end-to-end tests impersonate it to change the objects of Etcds.
	exemptUser = "seed:exempt"
)

// Operator selects what Deploy installs. The zero value is the operator of this checkout with the images and the settings of the seed.
type Operator struct {
	Images Images
	// Source is the root of another checkout with the operator and the chart. Empty means this checkout.
	Source string
	// Values is the path of a file with values for the chart. They replace the settings of the seed, but not the location of the
	// images. Empty means the settings of the seed, which an earlier chart does not know.
	Values string
}

// Deploy builds the operator and the kubectl plugin of this checkout, loads the operator's image and the images, and installs the
// operator's Helm chart. In the seed of a garden, it changes the registration of the operator, and gardenlet installs the chart. It does not
// restart the operator if nothing has changed.
func (s *Seed) Deploy(ctx context.Context, operator Operator) error {
	if s.Layout.Cluster == layout.Bench {
		return errors.New("the bench cluster runs no pods; `make bench` starts the operator as a process")
	}

	if s.Layout.Cluster == layout.Shoots {
		return s.deployToSeed(ctx, operator)
	}

	if s.Layout.Cluster == layout.Bare {
		return fmt.Errorf("the bare cluster is for manual installations of the operator; the values for the chart are in %s", s.Layout.Values())
	}

	tag, values, err := s.PrepareOperator(ctx, operator)
	if err != nil {
		return err
	}

	s.Out.Println("installing the operator %s:%s", image.OperatorRepository, tag)

	if err := s.deletePendingRelease(ctx); err != nil {
		return fmt.Errorf("deleting the record of an interrupted installation: %w", err)
	}

	if err := s.installChart(ctx, s.sourceOf(operator), s.Layout.Kubeconfig(), "--values="+values); err != nil {
		return err
	}

	return s.Out.Wait(ctx, "the operator", rolloutTimeout, s.missingOperator)
}

// sourceOf returns the root of the checkout with the operator.
func (s *Seed) sourceOf(operator Operator) string {
	if operator.Source == "" {
		return s.Layout.Root
	}

	return s.absolute(operator.Source)
}

// installChart installs the chart of the checkout at root on a cluster, or upgrades it. The program of Helm must have been built.
func (s *Seed) installChart(ctx context.Context, root, kubeconfig string, arguments ...string) error {
	helm, err := s.Builder.Program(build.Helm, "helm")
	if err != nil {
		return err
	}

	if err := process.Run(ctx, append([]string{helm}, chartArguments(root, kubeconfig, arguments...)...)...); err != nil {
		return fmt.Errorf("installing the chart: %w", err)
	}

	return nil
}

func chartArguments(root, kubeconfig string, arguments ...string) []string {
	return append([]string{
		"upgrade", "--install", operatorName, filepath.Join(root, "charts", operatorName),
		"--kubeconfig=" + kubeconfig, "--namespace=" + operatorNamespace, "--create-namespace",
		"--take-ownership", // of CustomResourceDefinitions that tests have applied
		"--history-max=2",
	}, arguments...)
}

// PrepareOperator builds the operator and the kubectl plugin, and loads the operator's image, which is in no registry. It loads the
// images of the user, and writes the values for the chart. It returns the tag of the operator's image and the path of the values.
func (s *Seed) PrepareOperator(ctx context.Context, operator Operator) (tag, values string, err error) {
	source := operator.Source
	if source != "" {
		source = s.absolute(source)
	}

	if tag, err = s.loadOperator(ctx, source); err != nil {
		return "", "", err
	}

	references, err := s.loadImages(ctx, operator.Images)
	if err != nil {
		return "", "", err
	}

	settings, err := s.settings(operator.Values, references)
	if err != nil {
		return "", "", err
	}

	values, err = s.writeValues(settings, tag, references)

	return tag, values, err
}

// deletePendingRelease deletes Helm's record of an interrupted installation, since Helm would wait for its end forever.
// The lock excludes an installation by another command.
func (s *Seed) deletePendingRelease(ctx context.Context) error {
	return s.kubectl(ctx, "delete", "secrets", "--namespace="+operatorNamespace,
		"--selector=owner=helm,name="+operatorName+",status in (pending-install,pending-upgrade,pending-rollback)")
}

// writeValues writes the values of the chart: the settings and the location of the images.
func (s *Seed) writeValues(settings map[string]any, tag string, references map[string]string) (string, error) {
	vector, err := imageVector(references)
	if err != nil {
		return "", err
	}

	if err := os.WriteFile(s.Layout.ImageVector(), vector, 0o644); err != nil {
		return "", err
	}

	values := maps.Clone(settings)
	values["image"] = map[string]any{"repository": image.OperatorRepository, "tag": tag}
	values["imageVectorOverwrite"] = string(vector)

	content, err := json.MarshalIndent(values, "", "  ") // JSON is YAML
	if err != nil {
		return "", err
	}

	return s.Layout.Values(), os.WriteFile(s.Layout.Values(), content, 0o644)
}

// settings returns the values in the file, or the settings of the cluster if the name is empty. On the seed these are the settings for
// a cluster with gardener-resource-manager and without gardenlet, and the users of the end-to-end tests. On the bare cluster,
// NetworkPolicies are enabled by default. Under a gardenlet the operator takes over from etcd-druid. The references are those of images that replace
// the images of the seed.
func (s *Seed) settings(file string, references map[string]string) (map[string]any, error) {
	switch {
	case file != "":
		return readSettings(s.absolute(file))
	case s.Layout.Cluster == layout.Shoots:
		return map[string]any{"predecessor": "TakeOver"}, nil
	case s.Layout.Cluster == layout.Bare:
		settings := map[string]any{"networkPolicies": map[string]any{
			"apiServer": []any{map[string]any{"ipBlock": map[string]any{"cidr": s.Layout.HostIP() + "/32"}}}, // its port is not a usual one
		}}
		if references["etcd-backup-restore-next"] == "" {
			// The sidecar of the seed cannot restore a database of etcd 3.5.
			settings["config"] = map[string]any{"controllers": map[string]any{"etcd": map[string]any{"newEtcdVersion": "3.4"}}}
		}

		return settings, nil
	default:
		return seedSettings(), nil
	}
}

func readSettings(file string) (map[string]any, error) {
	content, err := os.ReadFile(file) // #nosec G304 -- the file of the user
	if err != nil {
		return nil, err
	}

	settings := map[string]any{}
	if err := yaml.Unmarshal(content, &settings); err != nil {
		return nil, fmt.Errorf("reading the values in %s: %w", file, err)
	}

	return settings, nil
}

func seedSettings() map[string]any {
	return map[string]any{
		"replicaCount": 1, // the machine is small, and tests read the log of the only pod
		"gardener":     map[string]any{"enabled": false},
		"crds":         map[string]any{"enabled": true},
		"config": map[string]any{
			"localStore": map[string]any{"roots": []string{layout.LocalStore}},
			"controllers": map[string]any{
				"compaction": map[string]any{"enabled": true},
				"etcd": map[string]any{
					"newEtcdVersion":       "3.4", // ETCD_VERSION selects another one for the tests
					"dataComparisonPeriod": "5s",  // no scenario may find a difference that does not exist
					"recovery":             map[string]any{"dwellTime": "10s"},
				},
			},
		},
		"embeddedResourceManager": map[string]any{"enabled": false},
		"protection": map[string]any{
			"exemptServiceAccounts": []string{addon.ResourceManagerUser}, "exemptUsers": []string{exemptUser}, "drainers": []string{drainer},
		},
	}
}

// imageVector returns the overwrite that replaces the images of the operator's image vector by the images of the seed, and these by
// the references. The names that end with -next are those of etcd 3.5.
func imageVector(references map[string]string) ([]byte, error) {
	type entry struct {
		Name       string `json:"name"`
		Ref        string `json:"ref,omitempty"`
		Repository string `json:"repository,omitempty"`
		Tag        string `json:"tag,omitempty"`
	}

	var images []entry

	for _, replaced := range []struct{ name, tag string }{
		{"etcd-wrapper", image.EtcdWrapper34Tag},
		{"etcd-backup-restore", image.BackupRestoreTag},
		{"etcd-wrapper-next", image.EtcdWrapper35Tag},
		{"etcd-backup-restore-next", image.BackupRestoreTag},
		{"init", image.InitTag},
	} {
		if references[replaced.name] != "" {
			continue
		}

		repository, tag, err := image.SplitTag(replaced.tag)
		if err != nil {
			return nil, err
		}

		images = append(images, entry{Name: replaced.name, Repository: repository, Tag: tag})
	}

	for _, name := range slices.Sorted(maps.Keys(references)) {
		images = append(images, entry{Name: name, Ref: references[name]})
	}

	return json.MarshalIndent(map[string]any{"images": images}, "", "  ")
}

// missingOperator returns why the rollout is not complete. Empty means that every replica is updated and available.
func (s *Seed) missingOperator(ctx context.Context) (string, error) {
	client, err := s.api()
	if err != nil {
		return "", err
	}

	var deployment object
	if err := client.get(ctx, "/apis/apps/v1/namespaces/"+operatorNamespace+"/deployments/"+operatorName, &deployment); err != nil {
		return err.Error(), nil
	}

	status, wanted := deployment.Status, deployment.Spec.Replicas
	if status.ObservedGeneration >= deployment.Metadata.Generation && status.UpdatedReplicas == wanted && status.AvailableReplicas == wanted && status.Replicas == wanted {
		return "", nil
	}

	var labels []string
	for name, value := range deployment.Spec.Selector.MatchLabels {
		labels = append(labels, name+"="+value)
	}

	pods, err := client.missingPods(ctx, operatorNamespace, strings.Join(labels, ","))
	if err != nil {
		return err.Error(), nil
	}

	return pods, nil
}
