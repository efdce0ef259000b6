// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The provisioner command creates a hostPath volume for each PersistentVolumeClaim of the seed's StorageClasses, expands it, and removes it
// with the claim. It runs on the machine itself. All nodes of the seed share its file system, so that pods on any node can use a volume. With
// the parameter boundTo=node of the StorageClass, only pods on one node can use it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	dir := flag.String("dir", "", "directory of the volumes")
	name := flag.String("name", "seed.local/hostpath", "name of the provisioner in StorageClasses")

	flag.Parse()

	if err := run(*kubeconfig, *dir, *name); err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, dir, name string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}

	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	resizer{client: client, name: name}.Run(ctx)
	controller.NewProvisionController(ctx, client, name, provisioner{dir: filepath.Clean(dir)}, controller.LeaderElection(false)).Run(ctx)

	return nil
}

type provisioner struct{ dir string }

// Provision creates the directory with mode 0777, since the kubelet sets no group on hostPath volumes and pods do not
// run as root.
func (p provisioner) Provision(_ context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	path := filepath.Join(p.dir, o.PVC.Namespace+"_"+o.PVC.Name+"_"+o.PVName)

	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}

	if err := os.Chmod(path, 0o777); err != nil { // MkdirAll applies the umask
		return nil, controller.ProvisioningFinished, err
	}

	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			MountOptions:                  o.StorageClass.MountOptions,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
		},
	}
	if o.StorageClass.Parameters["boundTo"] == "node" && o.SelectedNodeName != "" {
		volume.Spec.NodeAffinity = nodeAffinity(o.SelectedNodeName)
	}

	return volume, controller.ProvisioningFinished, nil
}

// nodeAffinity returns the affinity of a volume that only one node can use. The hostname label of a node is its name.
func nodeAffinity(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}},
	}}}}
}

// Delete removes the directory of the volume. It ignores volumes outside the provisioner's directory.
func (p provisioner) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if volume.Spec.HostPath == nil || filepath.Dir(volume.Spec.HostPath.Path) != p.dir {
		return nil
	}

	return os.RemoveAll(volume.Spec.HostPath.Path)
}
