// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Quorate",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="All Ready",type=string,JSONPath=`.status.conditions[?(@.type=="AllMembersReady")].status`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.status.conditions[?(@.type=="BackupReady")].status`
// +kubebuilder:printcolumn:name="Reconciled",type=string,JSONPath=`.status.conditions[?(@.type=="Reconciled")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Cluster Size",type=integer,JSONPath=`.spec.replicas`,priority=1
// +kubebuilder:printcolumn:name="Ready Replicas",type=integer,JSONPath=`.status.readyReplicas`,priority=1
// +kubebuilder:printcolumn:name="All Members Updated",type=string,JSONPath=`.status.conditions[?(@.type=="AllMembersUpdated")].status`,priority=1
// +kubebuilder:printcolumn:name="Cluster ID Mismatch",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterIDMismatch")].status`,priority=1
// +kubebuilder:validation:XValidation:rule="!has(self.spec.etcd.additionalAdvertisePeerURLs) || self.spec.etcd.additionalAdvertisePeerURLs.all(m, m.memberName.startsWith((has(self.spec.memberNamePrefix) ? self.spec.memberNamePrefix + '-' : '') + self.metadata.name + '-'))",message="every memberName in spec.etcd.additionalAdvertisePeerURLs must be [<spec.memberNamePrefix>-]<metadata.name>-<ordinal>"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.etcd.additionalAdvertisePeerURLs) || self.spec.replicas == 0 || self.spec.etcd.additionalAdvertisePeerURLs.all(m, int(m.memberName.substring(m.memberName.lastIndexOf('-') + 1)) < self.spec.replicas)",message="the ordinal of every memberName in spec.etcd.additionalAdvertisePeerURLs must be below spec.replicas"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.etcd.bootstrapWithExistingCluster) || !has(oldSelf.spec.etcd.bootstrapWithExistingCluster) || !has(self.status) || !has(self.status.conditions) || !self.status.conditions.exists(c, c.type == 'BootstrappedWithExistingCluster' && c.status == 'False') || self.spec.etcd.bootstrapWithExistingCluster.members == oldSelf.spec.etcd.bootstrapWithExistingCluster.members",message="spec.etcd.bootstrapWithExistingCluster.members must not change while the members are joining"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.etcd.bootstrapWithExistingCluster) || !has(oldSelf.spec.etcd.bootstrapWithExistingCluster) || !has(self.status) || !has(self.status.conditions) || !self.status.conditions.exists(c, c.type == 'BootstrappedWithExistingCluster' && c.status == 'False') || self.spec.etcd.bootstrapWithExistingCluster.clientEndpoints == oldSelf.spec.etcd.bootstrapWithExistingCluster.clientEndpoints",message="spec.etcd.bootstrapWithExistingCluster.clientEndpoints must not change while the members are joining"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.etcd.bootstrapWithExistingCluster) || self.spec.etcd.bootstrapWithExistingCluster.members.all(m, self.spec.etcd.bootstrapWithExistingCluster.members.exists_one(o, o.name == m.name))",message="the names in spec.etcd.bootstrapWithExistingCluster.members must be unique"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.etcd.bootstrapWithExistingCluster) || self.spec.etcd.bootstrapWithExistingCluster.members.all(m, !m.name.startsWith((has(self.spec.memberNamePrefix) ? self.spec.memberNamePrefix + '-' : '') + self.metadata.name + '-'))",message="no name in spec.etcd.bootstrapWithExistingCluster.members may start with [<spec.memberNamePrefix>-]<metadata.name>-, the names of the members that join"
// +kubebuilder:validation:XValidation:rule="self.spec.replicas <= oldSelf.spec.replicas || oldSelf.spec.replicas == 0 || !(has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'ScaleOperationComplete' && c.status == 'False' && c.reason in ['ScalingIn', 'BootstrapMembersRemoval']))",fieldPath=".spec.replicas",message="spec.replicas must not be increased while members are removed: wait until the condition ScaleOperationComplete is True"
// +kubebuilder:validation:XValidation:rule="self.spec.replicas >= oldSelf.spec.replicas || self.spec.replicas == 0 || !(has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'ScaleOperationComplete' && c.status == 'False' && c.reason in ['ScalingOut', 'BootstrapMembersRemoval']))",fieldPath=".spec.replicas",message="spec.replicas must not be decreased while members are added, or while members of the joined cluster are removed: wait until the condition ScaleOperationComplete is True"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.etcd.bootstrapWithExistingCluster) || has(self.spec.etcd.bootstrapWithExistingCluster) && self.spec.etcd.bootstrapWithExistingCluster.members == oldSelf.spec.etcd.bootstrapWithExistingCluster.members || !(has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'ScaleOperationComplete' && c.status == 'False' && c.reason in ['ScalingIn', 'ScalingOut']))",message="spec.etcd.bootstrapWithExistingCluster.members must not change while members are added or removed: wait until the condition ScaleOperationComplete is True"

// Etcd is an etcd cluster: what it should be (spec) and what was seen of it (status). The validation of this kind needs
// Kubernetes 1.30 or newer, since its rules compare with the stored object where there is one.
type Etcd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired cluster. The operator rolls out a change if the annotation `druid.gardener.cloud/operation:
	// reconcile` requests it, or immediately if it is configured to reconcile automatically.
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
//
// The storage class may be given in one of two places; what counts is that the class as such never changes.
// +kubebuilder:validation:XValidation:rule="has(self.memberNamePrefix) == has(oldSelf.memberNamePrefix)",message="spec.memberNamePrefix must be neither added nor removed"
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplate) == has(oldSelf.volumeClaimTemplate)",message="spec.volumeClaimTemplate must be neither added nor removed"
// +kubebuilder:validation:XValidation:rule="(has(self.storageClass) ? [self.storageClass] : has(self.etcd.storageClass) ? [self.etcd.storageClass] : []) == (has(oldSelf.storageClass) ? [oldSelf.storageClass] : has(oldSelf.etcd.storageClass) ? [oldSelf.etcd.storageClass] : []) || self.replicas > 1 || self.replicas == 1 && has(self.etcd.updateStrategy) && self.etcd.updateStrategy == 'Surge'",message="spec.storageClass is immutable, and must be neither added nor removed, unless spec.replicas is more than 1, or is 1 and spec.etcd.updateStrategy is Surge"
// +kubebuilder:validation:XValidation:rule="has(self.externallyManagedMemberAddresses) == has(oldSelf.externallyManagedMemberAddresses)",message="spec.externallyManagedMemberAddresses can only be set on creation, and must be neither added nor removed"
// +kubebuilder:validation:XValidation:rule="!has(self.externallyManagedMemberAddresses) || self.externallyManagedMemberAddresses.size() == self.replicas",message="spec.externallyManagedMemberAddresses must have as many entries as spec.replicas says"
// +kubebuilder:validation:XValidation:rule="has(self.externallyManagedMemberAddresses) || self.replicas == 0 || (self.replicas % 2 == 1 && self.replicas <= 7) || (oldSelf.hasValue() && oldSelf.value().replicas == self.replicas) || (!oldSelf.hasValue() && self.replicas == 2 && has(self.etcd.bootstrapWithExistingCluster))",optionalOldSelf=true,fieldPath=".replicas",message="spec.replicas must be 0, 1, 3, 5 or 7: an even number tolerates no more failures than the odd one below it"
// +kubebuilder:validation:XValidation:rule="[[has(self.etcd.clientPort) ? self.etcd.clientPort : 2379, has(self.etcd.serverPort) ? self.etcd.serverPort : 2380, has(self.etcd.wrapperPort) ? self.etcd.wrapperPort : 9095, has(self.backup.port) ? self.backup.port : 8080]].all(ports, ports.all(p, ports.exists_one(q, q == p)))",message="spec.etcd.clientPort (default 2379), spec.etcd.serverPort (2380), spec.etcd.wrapperPort (9095) and spec.backup.port (8080) must differ: they are ports of one pod"
// +kubebuilder:validation:XValidation:rule="!has(self.backup.tls) || has(self.etcd.enableTLS) || has(self.etcd.clientUrlTls) || has(self.tlsServerSecret) || oldSelf.hasValue()",optionalOldSelf=true,message="spec.backup.tls needs spec.etcd.clientUrlTls: etcd and its sidecar must both serve with TLS, or neither"
type EtcdSpec struct {
	// MemberNamePrefix goes, with a dash, before the names of members and of their leases: `<prefix>-<etcd>-<ordinal>`.
	// Pod names do not change. At most 63 characters, lower-case letters, digits and dashes. Unset: members are named as
	// their pods. Immutable, including its presence.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.memberNamePrefix is immutable"
	MemberNamePrefix *string `json:"memberNamePrefix,omitempty"`
	// Selector has no effect.
	//
	// Deprecated: the operator selects pods by its own labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Labels are set on the pods, below the operator's own labels, which win. An empty map is allowed. A change of it
	// replaces the pods.
	// +required
	Labels map[string]string `json:"labels"`
	// Annotations are set on the pods, and on the pods that compact snapshots. A change of it replaces the pods.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Etcd configures the etcd container. An empty object is allowed.
	// +required
	Etcd EtcdConfig `json:"etcd"`
	// Backup configures the sidecar that checks the data directory, and takes and restores snapshots. An empty object is
	// allowed: then there are no snapshots.
	// +required
	Backup BackupSpec `json:"backup"`
	// Common is configuration that etcd and the sidecar share.
	// +optional
	Common SharedConfig `json:"sharedConfig,omitempty"`
	// SchedulingConstraints say on which nodes pods may run.
	// +optional
	SchedulingConstraints SchedulingConstraints `json:"schedulingConstraints,omitempty"`
	// Replicas is the number of members: 0, 1, 3, 5 or 7. With 0 the cluster hibernates: its pods are deleted, its
	// volumes stay. After a decrease, the members with the highest ordinals are removed, and their volumes are deleted. 2 is
	// valid on creation, with Etcd.BootstrapWithExistingCluster. With ExternallyManagedMemberAddresses it is the number of
	// addresses, and any number is valid.
	// +required
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// PriorityClassName is the PriorityClass of the pods. Unset: the cluster's default. A change of it replaces the pods.
	// At most 253 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// StorageClass is the StorageClass of the data volumes. Unset: the cluster's default class. An empty string: no class,
	// only volumes without one are bound. With several Replicas, a change replaces the volumes one after the other, with an extra member. Immutable,
	// including its presence, with one of Replicas, unless Etcd.UpdateStrategy is Surge: then a surge replaces the volume. Immutable with 0 Replicas.
	// At most 253 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClass *string `json:"storageClass,omitempty"`
	// StorageCapacity is the size of each data volume. Unset: 16Gi. An increase expands the existing volumes in place.
	// It is rejected if the StorageClass does not allow the expansion. With several Replicas, a decrease replaces the volumes one after the other, with
	// an extra member. With Replicas 1, a decrease is rejected, unless Etcd.UpdateStrategy is Surge: then a surge replaces the volume in both cases.
	// The new volume must have room for the quota, the write-ahead log and two databases of the current size.
	// It must be between 64Mi and 64Ti.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Ti')) <= 0",message="must be between 64Mi and 64Ti; the suffix m is milli, and Mi is 1024 × 1024"
	StorageCapacity *resource.Quantity `json:"storageCapacity,omitempty"`
	// VolumeClaimTemplate is the name of the volume claim template; a claim is named `<template>-<etcd>-<ordinal>`. Unset:
	// the name of the Etcd. Immutable, including its presence.
	// At most 63 characters.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.volumeClaimTemplate is immutable"
	// +kubebuilder:validation:MaxLength=63
	VolumeClaimTemplate *string `json:"volumeClaimTemplate,omitempty"`
	// PVCRetentionPolicy says what becomes of the data volumes when the Etcd is deleted; it has no effect before. Unset:
	// Retain.
	// +optional
	PVCRetentionPolicy *PVCRetentionPolicy `json:"pvcRetentionPolicy,omitempty"`
	// RecoveryPolicy says who chooses the data of the new cluster if the quorum is lost forever. So many voting members have then lost their data that
	// the others can never be a quorum again. It has no effect before. Unset: the annotation druid.gardener.cloud/recovery-policy, or else Ask.
	// +optional
	RecoveryPolicy *RecoveryPolicy `json:"recoveryPolicy,omitempty"`
	// RunAsRoot makes the containers run as user and group 0. Unset or false: as 65532. A change of it replaces the pods.
	// +optional
	RunAsRoot *bool `json:"runAsRoot,omitempty"`
	// ExternallyManagedMemberAddresses are the addresses (IPv4 or host name, without scheme and port) of externally
	// managed members, one for each of Replicas, at most 32. The operator creates no pods, Services and
	// PodDisruptionBudget for them. Members and leases are named `[<prefix>-]<etcd>-<address>`. The API server accepts
	// IPv6 addresses too, but the controller rejects them, because they are not valid in the name of a Lease. Unset:
	// the operator runs the pods. It can be set only on creation; the addresses can change, the presence is immutable.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	ExternallyManagedMemberAddresses []string `json:"externallyManagedMemberAddresses,omitempty"`

	DeprecatedSpecFields `json:",inline"`
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

// RecoveryPolicy says who chooses the data from which a cluster is recovered whose quorum is lost forever.
// +kubebuilder:validation:Enum=Never;Ask;AutoIfNoLoss;Auto
type RecoveryPolicy string

const (
	// RecoveryPolicyNever makes the operator state the options, and use none of them.
	RecoveryPolicyNever RecoveryPolicy = "Never"
	// RecoveryPolicyAsk waits for the choice of a user. It is the default.
	RecoveryPolicyAsk RecoveryPolicy = "Ask"
	// RecoveryPolicyAutoIfNoLoss makes the operator choose the data of the remaining members if it is proven that no acknowledged write is lost.
	// Otherwise it waits for the choice of a user.
	RecoveryPolicyAutoIfNoLoss RecoveryPolicy = "AutoIfNoLoss"
	// RecoveryPolicyAuto makes the operator choose the data with the highest revision if it cannot be proven that nothing is lost.
	RecoveryPolicyAuto RecoveryPolicy = "Auto"
)

// RecoveryPolicies are all values of RecoveryPolicy.
var RecoveryPolicies = []RecoveryPolicy{RecoveryPolicyNever, RecoveryPolicyAsk, RecoveryPolicyAutoIfNoLoss, RecoveryPolicyAuto}

// SchedulingConstraints say on which nodes the pods may run. They are copied to the pods as they are; a change replaces
// the pods.
type SchedulingConstraints struct {
	// Affinity of the pods. Unset: none.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints of the pods. Unset: none.
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// Tolerations of the pods. Unset: none.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// SharedConfig is configuration that etcd and the sidecar share.
type SharedConfig struct {
	// AutoCompactionMode says how AutoCompactionRetention is read. Unset: periodic. Rendered as etcd's
	// `auto-compaction-mode`.
	// +optional
	AutoCompactionMode *CompactionMode `json:"autoCompactionMode,omitempty"`
	// AutoCompactionRetention is how much history etcd keeps: a duration such as `30m` (periodic; a bare number means
	// hours), or a number of revisions (revision). Unset: 30m. Rendered as etcd's `auto-compaction-retention`.
	// At most 32 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=32
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
