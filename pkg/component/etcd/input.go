// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// Images are the images that are used where the Etcd names none. It is part of the pinned Defaults: names in JSON never
// change.
type Images struct {
	// EtcdWrapper is the image of the etcd container.
	EtcdWrapper string `json:"etcdWrapper"`
	// BackupRestore is the image of the sidecar.
	BackupRestore string `json:"backupRestore"`
	// Init is the image of the init container.
	Init string `json:"init"`
}

// Defaults are what changes a rendering and comes from the operator, not from the Etcd. The controller pins them, as
// JSON, when it accepts a generation, so that a new version of the operator renders what runs. Fields are only ever added,
// with a zero value that renders what was rendered before.
type Defaults struct {
	// Images are used where the Etcd names none.
	Images Images `json:"images"`
	// IPFamilies are the IP families of pods in this cluster, the primary one first. Empty: IPv4.
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// NamespaceSelectors select the namespace of the operator, so that Gardener's network policies let it reach the
	// client Service. Empty, as outside of Gardener: the Service gets no annotation for it.
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`
}

// Input is what the objects of one Etcd depend on.
type Input struct {
	// Etcd is the Etcd in its canonical form. It is not changed.
	Etcd *druidv1alpha1.Etcd
	// Replicas is the number of pods that the plan asks for. It has no effect where somebody else runs the pods.
	Replicas int32
	// ClusterSize is the number of members that the plan lists in etcd's configuration. 0: none, while hibernated. It has
	// no effect where members are managed externally: then all addresses are listed.
	ClusterSize int32
	// Defaults come from the operator.
	Defaults Defaults
	// Store is the resolved store. Nil: there are no snapshots.
	Store *backupstore.Store
	// InitialClusterToken is the token that a running cluster was formed with. Empty: spec.etcd.initialClusterToken, else
	// derived from the UID of the Etcd.
	InitialClusterToken string
	// CADataKeys is the key of the CA bundle in each Secret, by name of the Secret, where the reference names none.
	// A Secret that is not in it: `ca.crt`.
	CADataKeys map[string]string
	// PodAnnotations are further annotations of the pod template, for example checksums of secrets. They win over those
	// of the spec. Nil: none.
	PodAnnotations map[string]string
}
