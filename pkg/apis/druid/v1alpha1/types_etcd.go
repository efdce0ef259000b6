// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Quorate",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="All Members Ready",type=string,JSONPath=`.status.conditions[?(@.type=="AllMembersReady")].status`
// +kubebuilder:printcolumn:name="Backup Ready",type=string,JSONPath=`.status.conditions[?(@.type=="BackupReady")].status`
// +kubebuilder:printcolumn:name="Cluster ID Mismatch",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterIDMismatch")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Cluster Size",type=integer,JSONPath=`.spec.replicas`,priority=1
// +kubebuilder:printcolumn:name="Current Replicas",type=integer,JSONPath=`.status.currentReplicas`,priority=1
// +kubebuilder:printcolumn:name="Ready Replicas",type=integer,JSONPath=`.status.readyReplicas`,priority=1

// Etcd is an etcd cluster: what it should be (spec) and what was seen of it (status).
type Etcd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired cluster.
	Spec EtcdSpec `json:"spec,omitempty"`
	// Status is the observed cluster. Only the operator writes it.
	Status EtcdStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// EtcdList is a list of Etcds.
type EtcdList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Etcd `json:"items"`
}

// EtcdSpec is the desired state of an etcd cluster.
type EtcdSpec struct {
	// MemberNamePrefix goes, with a dash, before the names of members and of their leases: `<prefix>-<etcd>-<ordinal>`.
	// Pod names do not change. Unset: members are named as their pods. Immutable, including its presence.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	MemberNamePrefix *string `json:"memberNamePrefix,omitempty"`
	// Selector has no effect.
	//
	// Deprecated: the operator selects pods by its own labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Labels are set on the pods, below the operator's own labels, which win. An empty map is allowed.
	// +required
	Labels map[string]string `json:"labels"`
	// Annotations are set on the pods, including those that compact snapshots.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Etcd configures etcd itself.
	// +required
	Etcd EtcdConfig `json:"etcd"`
	// Backup configures the sidecar that takes and restores snapshots. An empty object is allowed: then there are no
	// snapshots.
	// +required
	Backup BackupSpec `json:"backup"`
	// Common is configuration that etcd and the sidecar share.
	// +optional
	Common SharedConfig `json:"sharedConfig,omitempty"`
	// SchedulingConstraints say on which nodes pods may run.
	// +optional
	SchedulingConstraints SchedulingConstraints `json:"schedulingConstraints,omitempty"`
	// Replicas is the number of members.
	// +required
	Replicas int32 `json:"replicas"`
	// PriorityClassName is the PriorityClass of the pods. Unset: the cluster's default.
	// +optional
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// StorageClass is the StorageClass of the data volumes. Unset: the cluster's default. Immutable, including its
	// presence.
	// +optional
	StorageClass *string `json:"storageClass,omitempty"`
	// StorageCapacity is the size of each data volume. Unset: 16Gi.
	// +optional
	StorageCapacity *resource.Quantity `json:"storageCapacity,omitempty"`
	// VolumeClaimTemplate is the name of the volume claim template; a claim is named `<template>-<etcd>-<ordinal>`. Unset:
	// the name of the Etcd. Immutable, including its presence.
	// +optional
	VolumeClaimTemplate *string `json:"volumeClaimTemplate,omitempty"`
	// PVCRetentionPolicy says what becomes of the data volumes when the Etcd is deleted. Unset: Retain.
	// +optional
	PVCRetentionPolicy *PVCRetentionPolicy `json:"pvcRetentionPolicy,omitempty"`
	// RunAsRoot makes the containers run as user and group 0. Unset or false: as 65532.
	// +optional
	RunAsRoot *bool `json:"runAsRoot,omitempty"`
	// ExternallyManagedMemberAddresses are the addresses (IPv4, IPv6 or host name, without scheme and port) of members
	// whose pods somebody else runs.
	// +optional
	// +listType=set
	ExternallyManagedMemberAddresses []string `json:"externallyManagedMemberAddresses,omitempty"`

	OlderSpecForm `json:",inline"`
}

// PVCRetentionPolicy says what becomes of the data volumes when an Etcd is deleted.
// +kubebuilder:validation:Enum=Retain;DeleteAll
type PVCRetentionPolicy string

const (
	// PVCRetentionPolicyRetain keeps the volume claims. It is the default.
	PVCRetentionPolicyRetain PVCRetentionPolicy = "Retain"
	// PVCRetentionPolicyDeleteAll deletes the volume claims of all members after their pods are gone.
	PVCRetentionPolicyDeleteAll PVCRetentionPolicy = "DeleteAll"
)

// SchedulingConstraints say on which nodes the pods may run. They are copied to the pods as they are.
type SchedulingConstraints struct {
	// Affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints of the pods.
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// Tolerations of the pods.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// SharedConfig is configuration that etcd and the sidecar share.
type SharedConfig struct {
	// AutoCompactionMode says how AutoCompactionRetention is read. Unset: periodic.
	// +optional
	AutoCompactionMode *CompactionMode `json:"autoCompactionMode,omitempty"`
	// AutoCompactionRetention is how much history etcd keeps: a duration such as `30m` (periodic), or a number of
	// revisions (revision). Unset: 30m.
	// +optional
	AutoCompactionRetention *string `json:"autoCompactionRetention,omitempty"`
}

// CompactionMode says how the retention of etcd's history is counted.
// +kubebuilder:validation:Enum=periodic;revision
type CompactionMode string

const (
	// Periodic keeps the history of a duration.
	Periodic CompactionMode = "periodic"
	// Revision keeps a number of revisions.
	Revision CompactionMode = "revision"
)
