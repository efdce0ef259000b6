// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// AnnotationChecksum is the key of an annotation of the pod template with the checksum of the etcd configuration. A changed
// configuration creates a new revision.
const AnnotationChecksum = "checksum/etcd-configmap"

// Values are the input of the rendering of the objects of one Etcd.
type Values struct {
	// Name is the name of the Etcd, of its StatefulSet, ServiceAccount and PodDisruptionBudget.
	Name string
	// Namespace is the namespace of all objects.
	Namespace string
	// Owner makes the Etcd the controller of all objects.
	Owner metav1.OwnerReference
	// Labels are the default labels: on all objects, and the selector of the StatefulSet.
	Labels map[string]string
	// Names are the names of the objects that are not named Name.
	Names Names
	// Components says which objects there are.
	Components Components
	// Replicas is the number of pods. 0: hibernated, or the pods are managed externally.
	Replicas int32
	// Members are the members of the etcd cluster, by ordinal. Empty: none is configured.
	Members []Member
	// Remaining is the number of members that stay, from the first one, while the others are removed. 0: none is removed.
	Remaining int32
	// Withdrawn is the ordinal of the member without advertised URLs. Nil: there is none.
	Withdrawn *int32
	// ServiceMember is the ordinal of the only member that the client Service selects. Nil: it selects all.
	ServiceMember *int32
	// ExcludesPods is true if the client Service does not select pods whose label app.kubernetes.io/name the operator has changed.
	ExcludesPods bool
	// PodMembers are the members for which the pod template is rendered. They are Members, except after a scale-in to one member and in a surge.
	PodMembers []Member
	// RecordsTemplate is true if the StatefulSet has an annotation with the checksum of the rendered pod template.
	RecordsTemplate bool
	// MembersByAddress is true if members are named by the IP address of their pod instead of its name: they are managed
	// externally. If their names contain host names, their manager overrides POD_NAME in their sidecars.
	MembersByAddress bool
	// MemberLeaseNames are the names of the leases of all current and planned members, by ordinal.
	MemberLeaseNames []string
	// Bootstrap is the existing cluster that the members join. Nil: they form a new cluster.
	Bootstrap *Bootstrap
	// IPFamilies are the IP families of pods. Never empty.
	IPFamilies []corev1.IPFamily
	// Ports are the ports of the pod.
	Ports Ports
	// ClientTLS are the secrets of connections of clients. Nil: plaintext.
	ClientTLS *TLS
	// PeerTLS are the secrets of connections between members. Nil: plaintext.
	PeerTLS *TLS
	// BackupTLS are the secrets of the sidecar's HTTP server. Nil: plaintext.
	BackupTLS *TLS
	// Store is the store of the snapshots. Nil: there are no snapshots.
	Store *backupstore.Store
	// Etcd configures etcd.
	Etcd ServerValues
	// Sidecar configures the sidecar.
	Sidecar SidecarValues
	// ClientService adds to the Service for clients.
	ClientService ClientServiceValues
	// Pod configures the pods.
	Pod PodValues
	// Claim configures the volume claim template.
	Claim ClaimValues
	// NetworkPolicies are the peers of the NetworkPolicies. Nil: there are no NetworkPolicies.
	NetworkPolicies *state.NetworkPolicies
}

// Names are the names of the objects of an Etcd.
type Names struct {
	// ClientService is the name of the Service for clients.
	ClientService string
	// PeerService is the name of the headless Service between members.
	PeerService string
	// ConfigMap is the name of the ConfigMap with etcd's configuration.
	ConfigMap string
	// Role is the name of the Role and of the RoleBinding.
	Role string
	// FullSnapshotLease is the name of the Lease of full snapshots.
	FullSnapshotLease string
	// DeltaSnapshotLease is the name of the Lease of delta snapshots.
	DeltaSnapshotLease string
	// MemberNetworkPolicy is the name of the NetworkPolicy of the members.
	MemberNetworkPolicy string
	// JobNetworkPolicy is the name of the NetworkPolicy of the Jobs.
	JobNetworkPolicy string
	// LocalHost is the host name by which the containers of a pod reach each other.
	LocalHost string
}

// Components selects the objects in addition to ConfigMap and StatefulSet.
type Components struct {
	// Identity renders what the sidecar needs to reach the API server: ServiceAccount, Role, RoleBinding, the leases, and the
	// flags for the leases. False: the deprecated annotation disables runtime components.
	Identity bool
	// Network renders what only pods of the operator need: Services, PodDisruptionBudget, NetworkPolicies, the flag for the client
	// Service, and the service account token. False: the pods are managed externally.
	Network bool
}

// Member is one member of the etcd cluster.
type Member struct {
	// Name is the name of the member.
	Name string
	// Host is its host name or IP address, without port and without brackets.
	Host string
	// AdditionalPeerURLs are peer URLs in addition to the one with Host. Nil: none.
	AdditionalPeerURLs []string
}

// Bootstrap is an existing cluster that the members join.
type Bootstrap struct {
	// Members are its members.
	Members []BootstrapMember
	// ClientEndpoints are URLs at which it serves clients.
	ClientEndpoints []string
}

// BootstrapMember is a member of the cluster to join.
type BootstrapMember struct {
	// Name of the member.
	Name string
	// PeerURLs of the member.
	PeerURLs []string
}

// Ports are the ports of a pod.
type Ports struct {
	// Client is etcd's port for clients.
	Client int32
	// Peer is etcd's port between members.
	Peer int32
	// Backup is the port of the sidecar.
	Backup int32
	// Wrapper is the port on which etcd-wrapper serves its readiness.
	Wrapper int32
}

// TLS names the secrets of one kind of connection.
type TLS struct {
	// CASecretName is the Secret with the CA bundle.
	CASecretName string
	// CADataKey is the key of the CA bundle in it.
	CADataKey string
	// ServerSecretName is the Secret with the server's certificate.
	ServerSecretName string
	// ClientSecretName is the Secret with the certificate for clients. Empty for peers and the sidecar's server, which
	// need none.
	ClientSecretName string
	// SkipClientSANVerification accepts client certificates of any name. Only for peers.
	SkipClientSANVerification *bool
}

// ServerValues configures the etcd of a member.
type ServerValues struct {
	// Image is the image of the container.
	Image string
	// Version is the minor version of etcd. Empty: it is not known, and counts as 3.4.
	Version string
	// Resources are the resources of the container.
	Resources corev1.ResourceRequirements
	// InitialClusterToken separates clusters whose members know the same addresses.
	InitialClusterToken string
	// Metrics is the level of detail of etcd's metrics.
	Metrics string
	// SnapshotCount is the number of raft entries in memory.
	SnapshotCount int64
	// EnableGRPCGateway serves etcd's HTTP gateway.
	EnableGRPCGateway bool
	// Quota is the largest size of the database. The sidecar restores with the same.
	Quota resource.Quantity
	// AutoCompactionMode says how AutoCompactionRetention is read.
	AutoCompactionMode string
	// AutoCompactionRetention is how much history is kept.
	AutoCompactionRetention string
	// MemberNamePrefix is the prefix of member names that the sidecar has to put before the pod's. Empty: none.
	MemberNamePrefix string
	// FreelistType is the kind of free list of the database. Empty: etcd's default.
	FreelistType string
}

// SidecarValues configures the sidecar. Where a field is empty, its flag is left out and the sidecar's default holds.
type SidecarValues struct {
	// Image is the image of the container.
	Image string
	// Resources are the resources of the container.
	Resources corev1.ResourceRequirements
	// FullSnapshotSchedule is a cron expression.
	FullSnapshotSchedule string
	// DeltaSnapshotPeriod is a duration.
	DeltaSnapshotPeriod string
	// DeltaSnapshotRetentionPeriod is a duration.
	DeltaSnapshotRetentionPeriod string
	// DeltaSnapshotMemoryLimit is a number of bytes.
	DeltaSnapshotMemoryLimit int64
	// GarbageCollectionPolicy is `Exponential` or `LimitBased`.
	GarbageCollectionPolicy string
	// GarbageCollectionPeriod is a duration.
	GarbageCollectionPeriod string
	// MaxBackups is the number of full snapshots kept. Only used with LimitBased.
	MaxBackups int32
	// CompressionEnabled compresses snapshots.
	CompressionEnabled bool
	// CompressionPolicy is the algorithm.
	CompressionPolicy string
	// SnapshotTimeout is the time limit of one full snapshot.
	SnapshotTimeout string
	// DefragmentationSchedule is a cron expression.
	DefragmentationSchedule string
	// DefragmentationTimeout is the time limit of one defragmentation.
	DefragmentationTimeout string
	// HeartbeatDuration is how often the lease of the member is renewed.
	HeartbeatDuration string
	// TempDir is the directory of temporary files.
	TempDir string
	// EnableProfiling serves Go's pprof.
	EnableProfiling bool
	// ElectionConnectionTimeout is a duration.
	ElectionConnectionTimeout string
	// ReelectionPeriod is a duration.
	ReelectionPeriod string
}

// ClientServiceValues adds to the Service for clients.
type ClientServiceValues struct {
	// Annotations of the Service.
	Annotations map[string]string
	// Labels of the Service, below the operator's own.
	Labels map[string]string
	// TrafficDistribution of the Service. Nil: not set.
	TrafficDistribution *string
	// NamespaceSelectors select the namespaces from which Gardener's network policies let traffic in, those that
	// Annotations name among them. They replace that annotation. Nil: it stays as it is.
	NamespaceSelectors []metav1.LabelSelector
}

// PodValues configures the pods.
type PodValues struct {
	// Labels of the pods, below the operator's own.
	Labels map[string]string
	// Annotations of the pods, below the operator's own.
	Annotations map[string]string
	// InitImage is the image of the init container, which only the Local store needs.
	InitImage string
	// ImagePullPolicy is that of all containers.
	ImagePullPolicy corev1.PullPolicy
	// PriorityClassName of the pods. Empty: the cluster's default.
	PriorityClassName string
	// Affinity of the pods. Nil: none.
	Affinity *corev1.Affinity
	// TopologySpreadConstraints of the pods. Nil: none.
	TopologySpreadConstraints []corev1.TopologySpreadConstraint
	// Tolerations of the pods. Nil: none.
	Tolerations []corev1.Toleration
	// RunAsRoot runs the containers as user and group 0 instead of 65532.
	RunAsRoot bool
	// AllowUnhealthyEviction lets pods that are not ready be evicted whatever the PodDisruptionBudget says.
	AllowUnhealthyEviction bool
}

// ClaimValues configures the volume claim template.
type ClaimValues struct {
	// Name of the template, and of the volume.
	Name string
	// Capacity is the size of the volume.
	Capacity resource.Quantity
	// StorageClassName is the StorageClass. Nil: the cluster's default.
	StorageClassName *string
}
