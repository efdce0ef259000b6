// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
