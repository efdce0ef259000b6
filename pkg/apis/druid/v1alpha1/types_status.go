// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EtcdStatus is the observed state of an etcd cluster.
type EtcdStatus struct {
	// ObservedGeneration is the newest generation of the spec that was rolled out completely.
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	// Etcd refers to the StatefulSet of the cluster.
	// +optional
	Etcd *CrossVersionObjectReference `json:"etcd,omitempty"`
	// Conditions are statements about the cluster, sorted by type.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// LastErrors are the errors of the last operation. Empty after it succeeded.
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
	// LastOperation is the last thing that the operator did with the spec.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// CurrentReplicas is the number of pods that exist.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas,omitempty"`
	// Replicas is the number of pods that exist, for the scale subresource.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Ready is true when every member of the desired cluster is ready, and updated if a generation or an operation is being rolled out. It is false while
	// the condition Ready is False.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// LabelSelector is never written.
	//
	// Deprecated: see Selector.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Members are the members of the cluster.
	// +optional
	Members []EtcdMemberStatus `json:"members,omitempty"`
	// PeerUrlTLSEnabled is never written.
	//
	// Deprecated: kept so that older objects decode.
	// +optional
	PeerUrlTLSEnabled *bool `json:"peerUrlTLSEnabled,omitempty"`
	// Selector selects the pods of the cluster, in the text form of a label selector, for the scale subresource.
	// +optional
	Selector *string `json:"selector,omitempty"`
	// BootstrapWithExistingCluster records the cluster that was joined. Written when the condition
	// BootstrappedWithExistingCluster first becomes True. Members that were removed from etcd are deleted from it.
	// +optional
	BootstrapWithExistingCluster *BootstrapWithExistingClusterStatus `json:"bootstrapWithExistingCluster,omitempty"`
}

// CrossVersionObjectReference names an object of the same namespace.
type CrossVersionObjectReference struct {
	// Kind of the object.
	// +required
	Kind string `json:"kind,omitempty"`
	// Name of the object.
	// +required
	Name string `json:"name,omitempty"`
	// APIVersion of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
}

// EtcdMemberStatus is the observed state of one member.
type EtcdMemberStatus struct {
	// Name of the member and of its lease.
	Name string `json:"name"`
	// ID of the member in etcd, in hexadecimal without leading zeros.
	// +optional
	ID *string `json:"id,omitempty"`
	// Role of the member in etcd. Unset: not known.
	// +optional
	Role *EtcdRole `json:"role,omitempty"`
	// Status of the member: Ready, NotReady or Unknown.
	Status EtcdMemberConditionStatus `json:"status"`
	// Reason is a CamelCase word for programs that says why Status is what it is.
	Reason string `json:"reason"`
	// LastTransitionTime is when Status last changed its value.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// EtcdVersion is the version of etcd that the member reports, for example 3.5.27. Unset: the member does not respond.
	// +optional
	EtcdVersion *string `json:"etcdVersion,omitempty"`
	// WrapperVersion is the tag or the digest of the image of etcd-wrapper in the pod of the member. Unset: there is no pod.
	// +optional
	WrapperVersion *string `json:"wrapperVersion,omitempty"`
	// SidecarVersion is the tag or the digest of the image of etcd-backup-restore in the pod of the member. Unset: there is no pod.
	// +optional
	SidecarVersion *string `json:"sidecarVersion,omitempty"`
}

// EtcdMemberConditionStatus is the state of a member.
type EtcdMemberConditionStatus string

const (
	// EtcdMemberStatusReady means that the member is healthy.
	EtcdMemberStatusReady EtcdMemberConditionStatus = "Ready"
	// EtcdMemberStatusNotReady means that the member is not healthy.
	EtcdMemberStatusNotReady EtcdMemberConditionStatus = "NotReady"
	// EtcdMemberStatusUnknown means that the facts needed to decide could not be had.
	EtcdMemberStatusUnknown EtcdMemberConditionStatus = "Unknown"
)

// EtcdRole is the role of a member. A learner has the role Member.
type EtcdRole string

const (
	// EtcdRoleLeader is the role of the member that leads.
	EtcdRoleLeader EtcdRole = "Leader"
	// EtcdRoleMember is the role of every other member.
	EtcdRoleMember EtcdRole = "Member"
)

// BootstrapWithExistingClusterStatus records the cluster that was joined.
type BootstrapWithExistingClusterStatus struct {
	// JoinedAt is when the join was first seen complete.
	JoinedAt metav1.Time `json:"joinedAt"`
	// Members of the joined cluster at that time.
	// +listType=atomic
	Members []BootstrapJoinedMember `json:"members"`
}

// BootstrapJoinedMember is a member of the joined cluster.
type BootstrapJoinedMember struct {
	// Name of the member.
	Name string `json:"name"`
	// PeerURLs of the member, as the spec named them.
	// +listType=atomic
	PeerURLs []string `json:"peerUrls"`
}
