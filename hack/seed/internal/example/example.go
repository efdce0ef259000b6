// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package example applies an Etcd and verifies that it becomes healthy and that the backup store gets its keys. It uses the cluster as a
// user does, and does not depend on how the seed runs.
package example

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
)

const timeout = 5 * time.Minute

// Drainer is the user who may delete pods of Etcds, as during the drain of a node. The protection rejects other users.
const Drainer = "seed:drainer"

// Runner applies and verifies one example.
type Runner struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Apply applies a manifest file.
	Apply func(ctx context.Context, path string) error
	// Manifest is the path of the file. Exactly one of its documents is an Etcd with a backup store.
	Manifest string
	Out      *progress.Printer
}

// Etcd is the key of the Etcd in the manifest.
type Etcd struct{ Namespace, Name string }

func etcdResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcds"}
}

// Run applies the manifest, waits until the Etcd is ready, writes a key, and waits until the backup store has the key.
func (r Runner) Run(ctx context.Context) error {
	content, err := os.ReadFile(r.Manifest)
	if err != nil {
		return fmt.Errorf("reading the example: %w", err)
	}

	etcd, err := FindEtcd(content)
	if err != nil {
		return fmt.Errorf("reading %s: %w", r.Manifest, err)
	}

	r.Out.Println("applying example/%s", filepath.Base(r.Manifest))

	if err := r.Apply(ctx, r.Manifest); err != nil {
		return fmt.Errorf("applying the example: %w", err)
	}

	if err := r.Out.Wait(ctx, "Etcd "+etcd.String(), timeout, func(ctx context.Context) (string, error) { return r.missing(ctx, etcd) }); err != nil {
		return err
	}

	target, err := r.findEndpoint(ctx, etcd)
	if err != nil {
		return err
	}

	r.Out.Println("Etcd %s is Ready", etcd)

	if err := r.showStore(ctx, target); err != nil {
		return err
	}

	r.printNext(etcd, target)

	return nil
}

// showStore waits for the first full snapshot before it writes the key, so that a delta snapshot must bring the key to the store.
func (r Runner) showStore(ctx context.Context, target *endpoint) error {
	if err := r.Out.Wait(ctx, "the first full snapshot", timeout, func(ctx context.Context) (string, error) {
		snapshots, err := target.snapshots(ctx)

		switch {
		case err != nil:
			return err.Error(), nil
		case snapshots.Full == nil:
			return "none in the store yet", nil
		default:
			return "", nil
		}
	}); err != nil {
		return err
	}

	revision, err := target.writeKey(ctx)
	if err != nil {
		return err
	}

	r.Out.Println("wrote the key %s and read it back, at revision %d", key, revision)

	var found snapshots

	if err := r.Out.Wait(ctx, "the snapshot with the key", timeout, func(ctx context.Context) (string, error) {
		current, err := target.snapshots(ctx)
		if err != nil {
			return err.Error(), nil
		}

		if last := current.lastRevision(); last < revision {
			return fmt.Sprintf("the store has revisions up to %d, the next delta snapshot contains %d", last, revision), nil
		}

		found = current

		return "", nil
	}); err != nil {
		return err
	}

	r.Out.Println("the store has %s", found)

	return nil
}

// FindEtcd returns the first Etcd in the documents of a manifest. Without a namespace it is in the namespace default.
func FindEtcd(manifest []byte) (Etcd, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)

	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return Etcd{}, errors.New("no document of kind Etcd")
		} else if err != nil {
			return Etcd{}, err
		}

		if object.GetKind() != "Etcd" {
			continue
		}

		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}

		return Etcd{Namespace: namespace, Name: object.GetName()}, nil
	}
}

func (e Etcd) String() string { return e.Namespace + "/" + e.Name }

// missing returns why the Etcd is not ready: its condition, its last error and the state of its pods. Empty means that it is ready.
func (r Runner) missing(ctx context.Context, e Etcd) (string, error) {
	object, err := r.Dynamic.Resource(etcdResource()).Namespace(e.Namespace).Get(ctx, e.Name, metav1.GetOptions{})
	if err != nil {
		return err.Error(), nil
	}

	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return "", err
	}

	text := "no condition yet"

	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] != "Ready" {
			continue
		}

		if condition["status"] == "True" {
			return "", nil
		}

		text = fmt.Sprintf("Ready is %v (%v)", condition["status"], condition["message"])
	}

	if lastError := lastError(object); lastError != "" {
		text += "; " + lastError
	}

	pods, err := DescribePods(ctx, r.Client, e.Namespace, "app.kubernetes.io/part-of="+e.Name)
	if err != nil {
		return err.Error(), nil
	}

	return text + "; " + pods, nil
}

func lastError(object *unstructured.Unstructured) string {
	errs, _, _ := unstructured.NestedSlice(object.Object, "status", "lastErrors")
	if len(errs) == 0 {
		return ""
	}

	first, _ := errs[0].(map[string]any)

	return fmt.Sprint(first["description"])
}

// DescribePods describes the state of each pod that is not ready, in one line.
func DescribePods(ctx context.Context, client kubernetes.Interface, namespace, selector string) (string, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return "", err
	}

	if len(list.Items) == 0 {
		return "no pod yet", nil
	}

	var lines []string

	for _, pod := range list.Items {
		if line := describePod(pod); line != "" {
			lines = append(lines, line)
		}
	}

	if len(lines) == 0 {
		return "its pods are ready", nil
	}

	return strings.Join(lines, "; "), nil
}

// describePod returns an empty string for a pod that is ready and not terminating.
func describePod(pod corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "pod " + pod.Name + " is terminating"
	}

	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return ""
		}
	}

	state, ready := string(pod.Status.Phase), 0

	for _, container := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if container.Ready {
			ready++
		}

		if waiting := container.State.Waiting; waiting != nil && waiting.Reason != "PodInitializing" {
			state = waiting.Reason + " (" + container.Name + ")"
		}

		if ended := container.State.Terminated; ended != nil && ended.ExitCode != 0 {
			state = fmt.Sprintf("failing (%s ended with code %d)", container.Name, ended.ExitCode)
		}
	}

	total := len(pod.Status.InitContainerStatuses) + len(pod.Status.ContainerStatuses)

	return fmt.Sprintf("pod %s is %s, %d of %d containers ready", pod.Name, state, ready, total)
}

func (r Runner) printNext(e Etcd, target *endpoint) {
	read := fmt.Sprintf("  etcdctl --endpoints %s get %s", target.clientURL, key)
	if target.tls != nil {
		read = fmt.Sprintf(`  for f in ca.crt tls.crt tls.key; do kubectl -n %[1]s get secret %[2]s-connection -o go-template="{{index .data \"$f\" | base64decode}}" > "$f"; done
  kubectl -n %[1]s port-forward service/%[2]s-client 2379 &
  etcdctl --endpoints https://localhost:2379 --cacert ca.crt --cert tls.crt --key tls.key get %[3]s`, e.Namespace, e.Name, key)
	}

	r.Out.Plain(`
Etcd %s is healthy. Its endpoint is %s for this machine
and %s for pods. The directory of its store is %s.

Try next:
  eval "$(go run -C hack/seed . env)"
  kubectl get etcd,managedresource,statefulset,pod -A
%s
  kubectl -n %s delete pod %s-0 --as=%s --as-group=system:masters   # the new pod still has the key
  make seed-status
  make down`, e, target.clientURL, target.inClusterURL, target.storePath, read, e.Namespace, e.Name, Drainer)
}
