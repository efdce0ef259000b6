// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"

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

// namespaces are the namespaces of the first count Etcds.
func namespaces(count int) []*corev1.Namespace {
	var list []*corev1.Namespace
	for index := 0; index < count; index += 2 {
		list = append(list, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(index)}})
	}

	return list
}

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

// nodeName is the name of the simulated node with the number.
func nodeName(number int) string { return fmt.Sprintf("node-%03d", number) }

// kwokAnnotation selects the nodes that KWOK simulates.
const kwokAnnotation = "kwok.x-k8s.io/node"

// nodeOf returns a simulated node. prefix contains the first two numbers of all addresses of pods. A node has at most 254 pods.
func nodeOf(number int, prefix string) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("4Ti"), corev1.ResourcePods: resource.MustParse("200"),
	}

	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: nodeName(number), Annotations: map[string]string{kwokAnnotation: "fake"},
			Labels: map[string]string{corev1.LabelHostname: nodeName(number), corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", number%3), corev1.LabelTopologyRegion: "bench"},
		},
		Spec:   corev1.NodeSpec{PodCIDR: fmt.Sprintf("%s.%d.0/24", prefix, number), PodCIDRs: []string{fmt.Sprintf("%s.%d.0/24", prefix, number)}},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}
