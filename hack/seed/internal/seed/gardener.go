// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/gardener"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/image"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

const (
	// gardenerMemory is the memory in GiB that must be available before a garden and its seed start. Running, they use about a third of it.
	gardenerMemory = 8

	seedTimeout  = 15 * time.Minute
	shootTimeout = 20 * time.Minute
)

// UpGardener starts a garden, makes this cluster its seed, and creates a Shoot without workers if shoot is true. gardenlet installs the operator. It
// may be called at any time, also after an interruption.
func (s *Seed) UpGardener(ctx context.Context, images Images, shoot bool) error {
	garden, err := newSeed(s.Layout.Of(layout.Garden), s.Out)
	if err != nil {
		return err
	}

	if err := s.checkRoom(ctx); err != nil {
		return err
	}

	unlock, err := garden.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	if err := s.Up(ctx, Options{Nodes: 1, Operator: true}); err != nil {
		return err
	}

	manager, err := s.gardener(ctx, garden)
	if err != nil {
		return err
	}

	if err := garden.startGarden(ctx, manager); err != nil {
		return err
	}

	if manager.ImageVector, err = s.registerOperator(ctx, manager, Operator{Images: images}); err != nil {
		return err
	}

	if err := s.startSeed(ctx, manager, garden); err != nil {
		return err
	}

	if !shoot {
		return nil
	}

	return s.startShoot(ctx, manager, garden)
}

// DownGardener stops this cluster, and then its garden. It continues after an error.
func (s *Seed) DownGardener(ctx context.Context) error {
	garden, err := newSeed(s.Layout.Of(layout.Garden), s.Out)
	if err != nil {
		return err
	}

	unlock, err := garden.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	return errors.Join(s.Down(ctx), garden.Down(ctx))
}

// checkRoom returns an error if another cluster runs, or if this machine has too little memory. It does not check the memory if this cluster has been
// started.
func (s *Seed) checkRoom(ctx context.Context) error {
	for _, other := range s.otherLayouts() {
		if _, err := os.Stat(other.Owner()); err == nil && other.Cluster != layout.Garden {
			return fmt.Errorf("the %s cluster runs, and this machine does not have enough resources for both; stop it with `make down`", other.Name())
		}
	}

	if _, err := os.Stat(s.Layout.Run); err == nil {
		return nil
	}

	available, err := process.Output(ctx, "awk", "/^MemAvailable:/ {print int($2 / 1024 / 1024)}", "/proc/meminfo")
	if err != nil {
		return err
	}

	gib, err := strconv.Atoi(available)
	if err != nil {
		return fmt.Errorf("reading the available memory: %w", err)
	}

	if gib < gardenerMemory {
		return fmt.Errorf("%s GiB of memory are available, but a garden and its seed need %d GiB; end other programs first", available, gardenerMemory)
	}

	return nil
}

func (s *Seed) gardener(ctx context.Context, garden *Seed) (gardener.Manager, error) {
	dir, err := s.Builder.GardenerDir(ctx)

	return gardener.Manager{Garden: garden.Layout, Shoots: s.Layout, Processes: garden.processes, Programs: s.control.Programs, Gardener: dir}, err
}

// registerOperator builds the operator, loads its image, and registers it in the garden. gardenlet then installs it, or updates it. It returns the
// image vector with the images of etcd.
func (s *Seed) registerOperator(ctx context.Context, manager gardener.Manager, operator Operator) (string, error) {
	tag, path, err := s.PrepareOperator(ctx, operator)
	if err != nil {
		return "", err
	}

	values, err := readSettings(path)
	if err != nil {
		return "", err
	}

	values["image"] = map[string]any{"ref": image.OperatorRepository + ":" + tag} // as in a ControllerDeployment of Gardener
	vector, _ := values["imageVectorOverwrite"].(string)                          // writeValues sets it

	return vector, manager.RegisterOperator(ctx, s.sourceOf(operator), values)
}

// deployToSeed registers the operator in the garden. The garden and its seed must run.
func (s *Seed) deployToSeed(ctx context.Context, operator Operator) error {
	garden, err := newSeed(s.Layout.Of(layout.Garden), s.Out)
	if err != nil {
		return err
	}

	for _, cluster := range []*Seed{s, garden} {
		if _, err := os.Stat(cluster.Layout.Owner()); err != nil {
			return fmt.Errorf("the %s cluster does not run; start it with `make gardener-up`", cluster.Layout.Name())
		}
	}

	unlock, err := garden.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	manager, err := s.gardener(ctx, garden)
	if err != nil {
		return err
	}

	_, err = s.registerOperator(ctx, manager, operator)

	return err
}

// startGarden starts the control plane of Gardener.
func (s *Seed) startGarden(ctx context.Context, manager gardener.Manager) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}

	s.Out.Println("starting the API server of the garden, gardener-apiserver and gardener-controller-manager")

	if err := s.control.EnsureAPIServer(ctx); err != nil {
		return err
	}

	if err := s.startControlPlane(ctx); err != nil {
		return err
	}

	if err := manager.EnsureAPIServer(ctx); err != nil {
		return err
	}

	client, err := s.api()
	if err != nil {
		return err
	}

	if err := s.Out.Wait(ctx, "gardener-apiserver", startTimeout, func(ctx context.Context) (string, error) {
		for _, path := range manager.APIs() {
			if err := client.get(ctx, path, nil); err != nil {
				return err.Error(), nil
			}
		}

		return "", nil
	}); err != nil {
		return err
	}

	return manager.EnsureGarden(ctx)
}

// startSeed installs gardenlet and waits until the Seed is complete.
func (s *Seed) startSeed(ctx context.Context, manager gardener.Manager, garden *Seed) error {
	if err := manager.PrepareSeed(ctx); err != nil {
		return err
	}

	stages, err := manager.Stages()
	if err != nil {
		return err
	}

	module, err := s.Builder.KwokDir(ctx)
	if err != nil {
		return err
	}

	s.Out.Println("installing gardenlet, which installs the operator")

	if err := manager.InstallGardenlet(ctx); err != nil {
		return err
	}

	client, err := garden.api()
	if err != nil {
		return err
	}

	return s.Out.Wait(ctx, "the Seed", seedTimeout, func(ctx context.Context) (string, error) {
		// KWOK ends if the API server does not serve the schemas of new CustomResourceDefinitions yet.
		if err := s.addons.EnsureKwok(ctx, module, stages); err != nil {
			return "", err
		}

		return client.missingOperation(ctx, "/apis/core.gardener.cloud/v1beta1/seeds/"+gardener.SeedName), manager.CheckAlive()
	})
}

// missingOperation returns the last operation of a Seed or a Shoot and the conditions that are not True. Empty means that the operation has succeeded, and that
// there is no such condition.
func (a *api) missingOperation(ctx context.Context, path string) string {
	var found object
	if err := a.get(ctx, path, &found); err != nil {
		return err.Error()
	}

	operation := found.Status.LastOperation
	if operation.State != "Succeeded" {
		return fmt.Sprintf("%s %s (%d %%): %s", operation.Type, operation.State, operation.Progress, operation.Description)
	}

	var missing []string

	for _, c := range found.Status.Conditions {
		if c.Status != "True" {
			missing = append(missing, fmt.Sprintf("%s is %s (%s)", c.Type, c.Status, c.Message))
		}
	}

	if len(found.Status.Conditions) == 0 {
		return "no condition yet"
	}

	return strings.Join(missing, "; ")
}

// startShoot creates the Shoot, waits until it is complete, and prints what the user can do with it.
func (s *Seed) startShoot(ctx context.Context, manager gardener.Manager, garden *Seed) error {
	s.Out.Println("creating the Shoot %s/%s", gardener.Namespace, gardener.ShootName)

	if err := manager.CreateShoot(ctx); err != nil {
		return err
	}

	client, err := garden.api()
	if err != nil {
		return err
	}

	if err := s.Out.Wait(ctx, "the Shoot", shootTimeout, func(ctx context.Context) (string, error) {
		return client.missingOperation(ctx, "/apis/core.gardener.cloud/v1beta1/namespaces/"+gardener.Namespace+"/shoots/"+gardener.ShootName), manager.CheckAlive()
	}); err != nil {
		return err
	}

	if err := manager.AllowAccess(ctx); err != nil {
		return err
	}

	shoot, err := s.shootKubeconfig(ctx, garden)
	if err != nil {
		return err
	}

	s.Out.Plain(`
The Shoot %[1]s/%[2]s is complete. gardenlet has installed the operator, and the Shoot's kube-apiserver runs on its Etcds.

Try next:
  eval "$(go run -C hack/seed . shoots env)"                         # KUBECONFIG is that of the seed
  kubectl get etcd -A
  kubectl --kubeconfig=%[3]s get controllerinstallation,seed,shoot -A
  kubectl --kubeconfig=%[4]s create configmap hello
  make test-gardener
  make gardener-down`, gardener.Namespace, gardener.ShootName, garden.Layout.Kubeconfig(), shoot)

	return nil
}

// shootKubeconfig writes a kubeconfig of the Shoot's administrator and returns its path. The address of the API server is that of its Service in the
// seed, because no DNS has its name.
func (s *Seed) shootKubeconfig(ctx context.Context, garden *Seed) (string, error) {
	request := filepath.Join(garden.Layout.Run, "request.json")
	if err := os.WriteFile(request, []byte(`{"apiVersion":"authentication.gardener.cloud/v1alpha1","kind":"AdminKubeconfigRequest","spec":{"expirationSeconds":86400}}`), 0o600); err != nil {
		return "", err
	}

	output, err := process.Output(ctx, s.addons.Kubectl, "--kubeconfig="+garden.Layout.Kubeconfig(), "create", "--filename="+request,
		"--raw=/apis/core.gardener.cloud/v1beta1/namespaces/"+gardener.Namespace+"/shoots/"+gardener.ShootName+"/adminkubeconfig")
	if err != nil {
		return "", fmt.Errorf("requesting a kubeconfig of the Shoot: %w", err)
	}

	var response struct{ Status struct{ Kubeconfig string } }
	if err := json.Unmarshal([]byte(output), &response); err != nil {
		return "", err
	}

	content, err := base64.StdEncoding.DecodeString(response.Status.Kubeconfig)
	if err != nil {
		return "", err
	}

	client, err := s.api()
	if err != nil {
		return "", err
	}

	var service object
	if err := client.get(ctx, "/api/v1/namespaces/"+gardener.TechnicalID+"/services/kube-apiserver", &service); err != nil {
		return "", err
	}

	path := filepath.Join(s.Layout.Run, "shoot.kubeconfig")

	return path, os.WriteFile(path, withServer(content, "https://"+service.Spec.ClusterIP), 0o600)
}

// server is the address of an API server in a kubeconfig.
var server = regexp.MustCompile(`(?m)^( *)server: .*$`)

// withServer returns the kubeconfig with another address of the API server. The certificate has the name of its Service.
func withServer(kubeconfig []byte, address string) []byte {
	return server.ReplaceAll(kubeconfig, []byte("${1}server: "+address+"\n${1}tls-server-name: kube-apiserver"))
}

// landscapeArchives packs the images with which gardenlet deploys a seed and the control plane of a Shoot.
func (s *Seed) landscapeArchives() ([]string, error) {
	specs, err := image.LandscapeCatalogue(s.Builder)
	if err != nil {
		return nil, err
	}

	return image.EnsureAll(specs, filepath.Join(s.Layout.Images(), "gardener"))
}
