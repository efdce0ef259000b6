// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpdateStrategy is how the operator replaces the only member of a cluster.
// +kubebuilder:validation:Enum=Surge;Restart
type UpdateStrategy string

const (
	// UpdateStrategySurge adds a temporary second member, and removes the first one when the second one votes. A new first member then joins, and
	// the temporary one is removed. Clients have no longer interruption than a change of the leader. The surge needs a second volume for the time.
	UpdateStrategySurge UpdateStrategy = "Surge"
	// UpdateStrategyRestart deletes the pod of the member. Clients have no etcd until the new pod is ready. It is the default.
	UpdateStrategyRestart UpdateStrategy = "Restart"
)

// UpdateStrategies are all values of UpdateStrategy.
var UpdateStrategies = []UpdateStrategy{UpdateStrategySurge, UpdateStrategyRestart}

// EtcdConfig configures the etcd container of each member. Unless said otherwise, a change replaces the pods one by one.
// +kubebuilder:validation:XValidation:rule="!has(self.additionalAdvertisePeerURLs) || self.additionalAdvertisePeerURLs.all(m, m.urls.all(u, u.startsWith((has(self.enableTLS) ? self.enableTLS : has(self.peerUrlTls)) ? 'https://' : 'http://')))",message="the URLs in spec.etcd.additionalAdvertisePeerURLs must begin with https:// if members use TLS, that is with spec.etcd.peerUrlTls or spec.etcd.enableTLS, and else with http://"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrapWithExistingCluster) || self.bootstrapWithExistingCluster.members.all(m, m.peerUrls.all(u, u.startsWith((has(self.enableTLS) ? self.enableTLS : has(self.peerUrlTls)) ? 'https://' : 'http://')))",message="the peerUrls in spec.etcd.bootstrapWithExistingCluster.members must begin with https:// if members use TLS, that is with spec.etcd.peerUrlTls or spec.etcd.enableTLS, and else with http://"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrapWithExistingCluster) || self.bootstrapWithExistingCluster.clientEndpoints.all(u, u.startsWith((has(self.enableTLS) ? self.enableTLS : has(self.clientUrlTls)) ? 'https://' : 'http://'))",message="spec.etcd.bootstrapWithExistingCluster.clientEndpoints must begin with https:// when members serve clients with TLS, that is with spec.etcd.clientUrlTls or spec.etcd.enableTLS, and else with http://"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrapWithExistingCluster) || has(oldSelf.bootstrapWithExistingCluster)",message="spec.etcd.bootstrapWithExistingCluster can only be set on creation"
type EtcdConfig struct {
	// Quota is the largest size of etcd's database; beyond it etcd raises the alarm NOSPACE and refuses writes. Unset: 8Gi.
	// Rendered as etcd's `quota-backend-bytes`.
	// It must be between 16Mi and 128Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('16Mi')) >= 0 && quantity(string(self)).compareTo(quantity('128Gi')) <= 0",message="must be between 16Mi and 128Gi; the suffix m is milli, and Mi is 1024 × 1024"
	Quota *resource.Quantity `json:"quota,omitempty"`
	// SnapshotCount is the number of raft entries that etcd keeps in memory before it writes its own snapshot, which has
	// nothing to do with backups. Unset: 10000. Rendered as etcd's `snapshot-count`.
	// It must be between 100 and 10000000.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=10000000
	SnapshotCount *int64 `json:"snapshotCount,omitempty"`
	// EnableGRPCGateway serves etcd's HTTP gateway on the client port. Unset: false. Rendered as etcd's
	// `enable-grpc-gateway`.
	// +optional
	EnableGRPCGateway *bool `json:"enableGRPCGateway,omitempty"`
	// DefragmentationSchedule is when the members may be defragmented, if their files shrink considerably. It is a cron expression with five
	// fields in UTC: minute, hour, day of the month, month and day of the week (0 is Sunday). Unset: every third day, at a time of the day that
	// depends on the Etcd.
	// At most 256 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^(\*|([1-5]?[0-9])(-([1-5]?[0-9]))?)(/[1-9][0-9]?)?(,(\*|([1-5]?[0-9])(-([1-5]?[0-9]))?)(/[1-9][0-9]?)?)*\s+(\*|(1?[0-9]|2[0-3])(-(1?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,(\*|(1?[0-9]|2[0-3])(-(1?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)*\s+(\*|([1-9]|[12][0-9]|3[01])(-([1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,(\*|([1-9]|[12][0-9]|3[01])(-([1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)*\s+(\*|([1-9]|1[0-2])(-([1-9]|1[0-2]))?)(/[1-9][0-9]?)?(,(\*|([1-9]|1[0-2])(-([1-9]|1[0-2]))?)(/[1-9][0-9]?)?)*\s+(\*|([0-7])(-([0-7]))?)(/[1-9][0-9]?)?(,(\*|([0-7])(-([0-7]))?)(/[1-9][0-9]?)?)*$`
	DefragmentationSchedule *string `json:"defragmentationSchedule,omitempty"`
	// ServerPort is the port between members. Unset: 2380.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ServerPort *int32 `json:"serverPort,omitempty"`
	// ClientPort is the port for clients. Unset: 2379.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ClientPort *int32 `json:"clientPort,omitempty"`
	// WrapperPort is the port on which etcd-wrapper serves its readiness. Unset: 9095. The schema lets any port pass, but
	// where the operator runs the pods it refuses another one, since the sidecar restarts etcd through 9095.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	WrapperPort *int32 `json:"wrapperPort,omitempty"`
	// UpdateStrategy is how the operator replaces the only member of a cluster: Surge or Restart. It has no effect on clusters of more members,
	// whose members are replaced one at a time. Unset: the annotation
	// druid.gardener.cloud/update-strategy, or else the default of the operator.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
	// Image is the full image reference of etcd-wrapper. Unset: the operator's image for the version of etcd.
	// At most 1024 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image *string `json:"image,omitempty"`
	// Version is the minor version of etcd. It selects the images of the operator for etcd-wrapper and etcd-backup-restore, and the options of
	// etcd. Unset: a new cluster gets the operator's default. A running cluster keeps its version, or is upgraded to a newer default when its next
	// generation is rolled out. The version only decreases if this field requests it. The operator changes it member by member
	// when all members are healthy, after a full snapshot was verified.
	// +optional
	// +kubebuilder:validation:Enum="3.4";"3.5"
	Version *string `json:"version,omitempty"`
	// AuthSecretRef has no effect.
	// +optional
	AuthSecretRef *corev1.SecretReference `json:"authSecretRef,omitempty"`
	// Metrics is the level of detail of etcd's metrics. Unset: basic. Rendered as etcd's `metrics`.
	// +optional
	Metrics *MetricsLevel `json:"metrics,omitempty"`
	// Resources of the etcd container. Unset: requests of 50m CPU and 128Mi memory, no limits.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// EnableTLS switches TLS as a whole. False: plaintext everywhere, TLS references are ignored. True: members serve
	// clients, each other and the sidecar's clients with TLS only, and certificates are issued for what has no references.
	// Unset: TLS references are used as given; a new cluster without any gets certificates, as with true. A running cluster
	// keeps the mode that it has where this is unset or its value is lost.
	// +optional
	EnableTLS *bool `json:"enableTLS,omitempty"`
	// ClientUrlTLS names the secrets of connections of clients. Its CA also verifies clients: each needs a certificate.
	// Unset: see EnableTLS.
	// +optional
	ClientUrlTLS *TLSConfig `json:"clientUrlTls,omitempty"`
	// AdditionalAdvertisePeerURLs are further peer URLs that members advertise, at most ten entries. They may name members
	// that do not exist while the cluster hibernates.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	AdditionalAdvertisePeerURLs []MemberPeerURLs `json:"additionalAdvertisePeerURLs,omitempty"`
	// PeerUrlTLS names the secrets of connections between members; its clientTLSSecretRef is not needed. Unset: see
	// EnableTLS.
	// +optional
	PeerUrlTLS *PeerTLSConfig `json:"peerUrlTls,omitempty"`
	// EtcdDefragTimeout is the time limit of the defragmentation of one member. Unset: 15m.
	// It must be between 1s and 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	EtcdDefragTimeout *metav1.Duration `json:"etcdDefragTimeout,omitempty"`
	// HeartbeatDuration is how often a sidecar renews the lease of its member. Unset: 10s.
	// It must be between 1s and 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('10m')",message="must be between 1s and 10m"
	HeartbeatDuration *metav1.Duration `json:"heartbeatDuration,omitempty"`
	// ClientService adds to the Service for clients. A change of it replaces no pod.
	// +optional
	ClientService *ClientService `json:"clientService,omitempty"`
	// BackendBboltFreelistType is the kind of free list of etcd's database. Unset: array. Rendered as etcd's
	// `backend-bbolt-freelist-type`, and with etcd 3.4 as `experimental-backend-bbolt-freelist-type`.
	// +optional
	BackendBboltFreelistType *BboltFreelistType `json:"backendBboltFreelistType,omitempty"`
	// BootstrapWithExistingCluster makes the members join a cluster that exists elsewhere. Settable on creation only;
	// members and endpoints are frozen while the condition BootstrappedWithExistingCluster is False. Members that are
	// removed from the spec later are removed from etcd.
	// +optional
	BootstrapWithExistingCluster *BootstrapWithExistingCluster `json:"bootstrapWithExistingCluster,omitempty"`

	DeprecatedEtcdFields `json:",inline"`
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
	// BboltFreelistArray keeps small databases small on disk.
	BboltFreelistArray BboltFreelistType = "array"
	// BboltFreelistMap is faster with large databases, and results in a larger file.
	BboltFreelistMap BboltFreelistType = "map"
)

// ClientService adds to the Service for clients.
type ClientService struct {
	// Annotations of the Service. Annotations that others set on it are left alone.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the Service, below the operator's own labels, which win.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// TrafficDistribution of the Service, as in its `spec.trafficDistribution`. Unset: not set there either.
	// +optional
	// +kubebuilder:validation:Enum=PreferSameZone;PreferSameNode;PreferClose
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`
}

// MemberPeerURLs are further peer URLs of one member.
// +kubebuilder:validation:XValidation:rule="self.urls.all(u, !u.matches('^[^/]*//[^/?#]*@'))",fieldPath=".urls",message="must not have user info: remove what is before the @ of the host"
type MemberPeerURLs struct {
	// MemberName is the name of the member: `[<memberNamePrefix>-]<etcd>-<ordinal>`, with an ordinal below the number of
	// members.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?-[0-9]+$`
	MemberName string `json:"memberName"`
	// URLs are added to the member's own peer URL: one to five URLs, https with TLS between members, else http.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="(self.startsWith('http://') || self.startsWith('https://')) && isURL(self)",message="must be a URL with scheme http or https, a host, and optionally a port, for example https://10.0.0.1:2380"
	// +listType=set
	URLs []string `json:"urls"`
}

// BootstrapWithExistingCluster names the cluster that the members join. Its certificates must be trusted by the CA of
// spec.etcd.clientUrlTls.
// +kubebuilder:validation:XValidation:rule="self.clientEndpoints.all(u, !u.matches('^[^/]*//[^/?#]*@'))",fieldPath=".clientEndpoints",message="must not have user info: remove what is before the @ of the host"
type BootstrapWithExistingCluster struct {
	// Members of the existing cluster, one to ten, with unique names.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	Members []BootstrapExistingMember `json:"members"`
	// ClientEndpoints are one to ten URLs at which the existing cluster serves clients, https with TLS for clients, else
	// http.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="(self.startsWith('http://') || self.startsWith('https://')) && isURL(self)",message="must be a URL with scheme http or https, a host, and optionally a port, for example https://10.0.0.1:2379"
	// +listType=set
	ClientEndpoints []string `json:"clientEndpoints"`
}

// BootstrapExistingMember is a member of the cluster to join.
// +kubebuilder:validation:XValidation:rule="self.peerUrls.all(u, !u.matches('^[^/]*//[^/?#]*@'))",fieldPath=".peerUrls",message="must not have user info: remove what is before the @ of the host"
type BootstrapExistingMember struct {
	// Name of the member. It must not have the form of the names of the members that join.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// PeerURLs of the member: one to five URLs, https with TLS between members, else http.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:XValidation:rule="(self.startsWith('http://') || self.startsWith('https://')) && isURL(self)",message="must be a URL with scheme http or https, a host, and optionally a port, for example https://10.0.0.1:2380"
	// +listType=set
	PeerURLs []string `json:"peerUrls"`
}
