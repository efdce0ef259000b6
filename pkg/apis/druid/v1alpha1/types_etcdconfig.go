// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdConfig configures the etcd container of each member.
type EtcdConfig struct {
	// Quota is the largest size of etcd's database; beyond it etcd refuses writes. Unset: 8Gi.
	// +optional
	Quota *resource.Quantity `json:"quota,omitempty"`
	// SnapshotCount is the number of raft entries that etcd keeps in memory before it writes its own snapshot. Unset:
	// 10000.
	// +optional
	SnapshotCount *int64 `json:"snapshotCount,omitempty"`
	// EnableGRPCGateway serves etcd's HTTP gateway on the client port. Unset: false.
	// +optional
	EnableGRPCGateway *bool `json:"enableGRPCGateway,omitempty"`
	// DefragmentationSchedule is a cron expression of five fields, in UTC. Unset: the sidecar's default, `0 0 */3 * *`.
	// +optional
	DefragmentationSchedule *string `json:"defragmentationSchedule,omitempty"`
	// ServerPort is the port between members. Unset: 2380.
	// +optional
	ServerPort *int32 `json:"serverPort,omitempty"`
	// ClientPort is the port for clients. Unset: 2379.
	// +optional
	ClientPort *int32 `json:"clientPort,omitempty"`
	// WrapperPort is the port on which etcd-wrapper serves its readiness. Unset: 9095.
	// +optional
	WrapperPort *int32 `json:"wrapperPort,omitempty"`
	// Image is the full image reference of etcd-wrapper. Unset: the operator's.
	// +optional
	Image *string `json:"image,omitempty"`
	// AuthSecretRef has no effect.
	// +optional
	AuthSecretRef *corev1.SecretReference `json:"authSecretRef,omitempty"`
	// Metrics is the level of detail of etcd's metrics. Unset: basic.
	// +optional
	Metrics *MetricsLevel `json:"metrics,omitempty"`
	// Resources of the etcd container. Unset: requests 50m CPU and 128Mi memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// EnableTLS switches TLS as a whole.
	// +optional
	EnableTLS *bool `json:"enableTLS,omitempty"`
	// ClientUrlTLS names the secrets for connections of clients.
	// +optional
	ClientUrlTLS *TLSConfig `json:"clientUrlTls,omitempty"`
	// AdditionalAdvertisePeerURLs are further peer URLs that members advertise.
	// +optional
	AdditionalAdvertisePeerURLs []MemberPeerURLs `json:"additionalAdvertisePeerURLs,omitempty"`
	// PeerUrlTLS names the secrets for connections between members.
	// +optional
	PeerUrlTLS *PeerTLSConfig `json:"peerUrlTls,omitempty"`
	// EtcdDefragTimeout is the time limit of one defragmentation. Unset: 15m.
	// +optional
	// +kubebuilder:validation:Type=string
	EtcdDefragTimeout *metav1.Duration `json:"etcdDefragTimeout,omitempty"`
	// HeartbeatDuration is how often a sidecar renews the lease of its member. Unset: 10s.
	// +optional
	// +kubebuilder:validation:Type=string
	HeartbeatDuration *metav1.Duration `json:"heartbeatDuration,omitempty"`
	// ClientService adds to the Service for clients.
	// +optional
	ClientService *ClientService `json:"clientService,omitempty"`
	// BackendBboltFreelistType is the kind of free list of etcd's database. Unset: array.
	// +optional
	BackendBboltFreelistType *BboltFreelistType `json:"backendBboltFreelistType,omitempty"`
	// BootstrapWithExistingCluster makes the members join a cluster that exists elsewhere.
	// +optional
	BootstrapWithExistingCluster *BootstrapWithExistingCluster `json:"bootstrapWithExistingCluster,omitempty"`

	OlderEtcdForm `json:",inline"`
}

// MetricsLevel is the level of detail of etcd's metrics.
// +kubebuilder:validation:Enum=basic;extensive
type MetricsLevel string

const (
	// Basic leaves histograms out.
	Basic MetricsLevel = "basic"
	// Extensive includes histograms.
	Extensive MetricsLevel = "extensive"
)

// BboltFreelistType is the kind of free list of etcd's database.
// +kubebuilder:validation:Enum=array;map
type BboltFreelistType string

const (
	// BboltFreelistArray is small on disk.
	BboltFreelistArray BboltFreelistType = "array"
	// BboltFreelistMap is fast with large databases, and larger on disk.
	BboltFreelistMap BboltFreelistType = "map"
)

// ClientService adds to the Service for clients.
type ClientService struct {
	// Annotations of the Service.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the Service, below the operator's own labels, which win.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// TrafficDistribution of the Service. Unset: not set.
	// +optional
	// +kubebuilder:validation:Enum=PreferSameZone;PreferSameNode;PreferClose
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`
}

// MemberPeerURLs are further peer URLs of one member.
type MemberPeerURLs struct {
	// MemberName is the name of the member: `[<memberNamePrefix>-]<etcd>-<ordinal>`.
	MemberName string `json:"memberName"`
	// URLs are added to the member's own peer URL.
	// +listType=set
	URLs []string `json:"urls"`
}

// BootstrapWithExistingCluster names the cluster that the members join.
type BootstrapWithExistingCluster struct {
	// Members of the existing cluster.
	// +listType=atomic
	Members []BootstrapExistingMember `json:"members"`
	// ClientEndpoints are URLs at which the existing cluster serves clients.
	// +listType=set
	ClientEndpoints []string `json:"clientEndpoints"`
}

// BootstrapExistingMember is a member of the cluster to join.
type BootstrapExistingMember struct {
	// Name of the member.
	Name string `json:"name"`
	// PeerURLs of the member.
	// +listType=set
	PeerURLs []string `json:"peerUrls"`
}
