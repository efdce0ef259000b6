// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/build"
)

const (
	exampleTimeout = 5 * time.Minute

	// exampleFile contains the Etcd with the namespace and the name.
	exampleFile      = "20-etcd-local-store.yaml"
	exampleNamespace = "etcd-example"
	exampleName      = "etcd-local"
	exampleKey       = "/example/greeting"

	// drainer is the user who may delete pods of Etcds, as during the drain of a node. The protection rejects other users.
	drainer = "seed:drainer"
)

// Example installs the operator and applies the first example. It writes a key with `kubectl etcd ctl`, and waits until the backup store has it.
func (s *Seed) Example(ctx context.Context, images Images) error {
	if err := s.Deploy(ctx, Operator{Images: images}); err != nil {
		return err
	}

	client, err := s.api()
	if err != nil {
		return err
	}

	s.Out.Println("applying example/%s", exampleFile)

	if err := s.kubectl(ctx, "apply", "--filename="+filepath.Join(s.Layout.Root, "example", exampleFile)); err != nil {
		return fmt.Errorf("applying the example: %w", err)
	}

	const etcd = exampleNamespace + "/" + exampleName
	if err := s.Out.Wait(ctx, "Etcd "+etcd, exampleTimeout, client.missingEtcd); err != nil {
		return err
	}

	s.Out.Println("Etcd %s is Ready", etcd)

	// The first full snapshot precedes the key, so that a delta snapshot must bring the key to the store.
	if err := s.Out.Wait(ctx, "the first full snapshot", exampleTimeout, func(ctx context.Context) (string, error) {
		return client.missingRevision(ctx, 1, "full"), nil
	}); err != nil {
		return err
	}

	revision, err := s.writeKey(ctx)
	if err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}

	s.Out.Println("wrote the key %s and read it back, at revision %d", exampleKey, revision)

	if err := s.Out.Wait(ctx, "the snapshot with the key", exampleTimeout, func(ctx context.Context) (string, error) {
		return client.missingRevision(ctx, revision, "full", "delta"), nil
	}); err != nil {
		return err
	}

	s.Out.Plain(`
Etcd %[1]s is healthy, and its store has the key. Its endpoint for pods is https://%[3]s-client.%[2]s.svc:2379.

Try next:
  eval "$(go run -C hack/seed . env)"
  kubectl get etcd,managedresource,statefulset,pod -A
  kubectl etcd ctl -n %[2]s %[3]s -- get %[4]s
  kubectl -n %[2]s delete pod %[3]s-0 --as=%[5]s --as-group=system:masters   # the new pod still has the key
  make seed-status
  make down`, etcd, exampleNamespace, exampleName, exampleKey, drainer)

	return nil
}

// missingEtcd returns why the Etcd is not ready: its condition, its last error and the state of its pods. Empty means that it is ready.
func (a *api) missingEtcd(ctx context.Context) (string, error) {
	var etcd object
	if err := a.get(ctx, "/apis/druid.gardener.cloud/v1alpha1/namespaces/"+exampleNamespace+"/etcds/"+exampleName, &etcd); err != nil {
		return err.Error(), nil
	}

	ready := etcd.ready()
	if ready.Status == "True" {
		return "", nil
	}

	text := "no condition yet"
	if ready.Status != "" {
		text = fmt.Sprintf("Ready is %s (%s)", ready.Status, ready.Message)
	}

	if len(etcd.Status.LastErrors) > 0 {
		text += "; " + etcd.Status.LastErrors[0].Description
	}

	pods, err := a.missingPods(ctx, exampleNamespace, "app.kubernetes.io/part-of="+exampleName)
	if err != nil {
		return err.Error(), nil
	}

	return text + "; " + pods, nil
}

// missingRevision returns why the store has no snapshot of the kinds with the revision. Empty means that it has one. The sidecar writes the
// revision of the last snapshot of each kind to a Lease.
func (a *api) missingRevision(ctx context.Context, revision int64, kinds ...string) string {
	var last int64

	for _, kind := range kinds {
		var lease object
		if err := a.get(ctx, "/apis/coordination.k8s.io/v1/namespaces/"+exampleNamespace+"/leases/"+exampleName+"-"+kind+"-snap", &lease); err != nil {
			return err.Error()
		}

		found, _ := strconv.ParseInt(lease.Spec.HolderIdentity, 10, 64) // empty before the first snapshot
		last = max(last, found)
	}

	if last < revision {
		return fmt.Sprintf("the store has revisions up to %d, a later snapshot contains %d", last, revision)
	}

	return ""
}

// writeKey writes the key unless it exists, reads it, and returns the revision of its last change.
func (s *Seed) writeKey(ctx context.Context) (int64, error) {
	for range 2 {
		output, err := s.ctl(ctx, "get", exampleKey, "--write-out=json")
		if err != nil {
			return 0, err
		}

		var found struct {
			Kvs []struct {
				Revision int64 `json:"mod_revision"`
			}
		}
		if err := json.Unmarshal(output, &found); err != nil {
			return 0, err
		}

		if len(found.Kvs) > 0 {
			return found.Kvs[0].Revision, nil
		}

		if _, err := s.ctl(ctx, "put", exampleKey, "Hello"); err != nil {
			return 0, err
		}
	}

	return 0, errors.New("the key was written, but a read did not return it")
}

// ctl runs etcdctl against the Etcd, as a user does.
func (s *Seed) ctl(ctx context.Context, args ...string) ([]byte, error) {
	etcdctl, err := s.Builder.Program(build.Etcd, "etcdctl")
	if err != nil {
		return nil, err
	}

	command := exec.CommandContext(ctx, filepath.Join(s.Builder.CommandDir(), "kubectl-etcd"),
		append([]string{"ctl", "--namespace=" + exampleNamespace, exampleName, "--"}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Layout.Kubeconfig(), "PATH="+filepath.Dir(etcdctl))

	output, err := command.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("kubectl etcd ctl %s: %w: %s", args[0], err, failed.Stderr)
	}

	return output, err
}
