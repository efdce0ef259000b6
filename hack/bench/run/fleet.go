// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/stub"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Fleets are the kinds of Etcds that can be measured.
const (
	// FleetPlaintext has Etcds without TLS.
	FleetPlaintext = "plaintext"
	// FleetTLS has Etcds whose certificates the operator issues.
	FleetTLS = "tls"
)

const (
	// backupSecret is the Secret with the credentials of the backup store in each namespace.
	backupSecret = "etcd-backup"
	// changedLabel is a label of pods whose value a phase changes.
	changedLabel = "bench"
)

// namespaceOf is the namespace of the Etcds with the index. Each control plane of a shoot has two Etcds, main and events.
func namespaceOf(index int) string { return fmt.Sprintf("shoot--bench--%05d", index/2) }

// backupSecretIn returns the credentials of the backup store. No real store has them.
func backupSecretIn(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: backupSecret},
		StringData: map[string]string{"region": "bench", "accessKeyID": "bench", "secretAccessKey": "bench", "bucketName": "bench"},
	}
}

// etcdOf returns the Etcd with the index: main with a backup store if the index is even, otherwise events without one.
func etcdOf(index int, fleet string) *druidv1alpha1.Etcd {
	role := "main"
	if index%2 == 1 {
		role = "events"
	}
	etcd := &druidv1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(index), Name: "etcd-" + role},
		Spec: druidv1alpha1.EtcdSpec{
			Replicas:        1,
			Labels:          map[string]string{"gardener.cloud/role": "controlplane", "role": role, changedLabel: "0"},
			StorageCapacity: new(resource.MustParse("10Gi")),
		},
	}
	etcd.Spec.Etcd.EnableTLS = new(fleet == FleetTLS)
	if role == "main" {
		etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: stub.DeltaPeriod}
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
			Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bench"), Prefix: etcd.Namespace + "/" + etcd.Name,
			SecretRef: &corev1.SecretReference{Name: backupSecret},
		}
	}

	return etcd
}

// isComplete returns whether the operator has rolled out the latest generation and reports that all members are healthy.
func isComplete(etcd *druidv1alpha1.Etcd) bool {
	status := etcd.Status

	return status.ObservedGeneration != nil && *status.ObservedGeneration == etcd.Generation && status.Ready != nil && *status.Ready && isReady(etcd)
}

// isReady returns whether the operator reports that a quorum is healthy.
func isReady(etcd *druidv1alpha1.Etcd) bool {
	for _, condition := range etcd.Status.Conditions {
		if condition.Type == druidv1alpha1.ConditionTypeReady {
			return condition.Status == druidv1alpha1.ConditionTrue
		}
	}

	return false
}

const (
	// kwokAnnotation selects the nodes that KWOK simulates.
	kwokAnnotation = "kwok.x-k8s.io/node"
	// membersOfNode is the number of members on a node.
	membersOfNode = 100
)

// nodeOf returns a simulated node. podCIDR contains the addresses of all pods, and has 16 bits. Each node has 254 of them. The numbers of
// nodes begin with 1: node 0 would have the first addresses.
func nodeOf(number int, podCIDR string) *corev1.Node {
	parts := strings.SplitN(podCIDR, ".", 3)
	network := fmt.Sprintf("%s.%s.%d.0/24", parts[0], parts[1], number)
	name := fmt.Sprintf("node-%03d", number)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("4Ti"), corev1.ResourcePods: resource.MustParse("200"),
	}

	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{kwokAnnotation: "fake"},
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", number%3), corev1.LabelTopologyRegion: "bench"},
		},
		Spec:   corev1.NodeSpec{PodCIDR: network, PodCIDRs: []string{network}},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}
