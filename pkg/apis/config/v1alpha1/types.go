// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// OperatorConfiguration is the configuration file of the operator.
type OperatorConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// ClientConnection limits how fast the operator talks to the API server.
	// +optional
	ClientConnection ClientConnectionConfiguration `json:"clientConnection,omitempty"`
	// LeaderElection elects the replica that reconciles.
	// +optional
	LeaderElection LeaderElectionConfiguration `json:"leaderElection,omitempty"`
	// Server holds the addresses on which the operator itself serves.
	// +optional
	Server ServerConfiguration `json:"server,omitempty"`
	// WatchNamespaces are the namespaces whose Etcds and tasks the operator reconciles. It reads and writes nothing in other
	// namespaces, except its own, and needs Roles in these namespaces in place of a ClusterRole. Empty: all namespaces. It
	// cannot be used in a Gardener seed, where each shoot has its own namespace.
	// +optional
	WatchNamespaces []string `json:"watchNamespaces,omitempty"`
	// Debugging switches profiling on.
	// +optional
	Debugging DebuggingConfiguration `json:"debugging,omitempty"`
	// Controllers configures each controller.
	// +optional
	Controllers ControllerConfiguration `json:"controllers,omitempty"`
	// Webhooks configures the admission webhooks.
	// +optional
	Webhooks WebhookConfiguration `json:"webhooks,omitempty"`
	// Rendering holds what changes the objects of Etcds. An Etcd keeps what held when its generation was accepted.
	// +optional
	Rendering RenderingConfiguration `json:"rendering,omitempty"`
	// LocalStore says which directories of nodes Etcds may use as backup store.
	// +optional
	LocalStore LocalStoreConfiguration `json:"localStore,omitempty"`
	// Restrictions says which values the authors of Etcds and tasks may select. Default: all values.
	// +optional
	Restrictions RestrictionsConfiguration `json:"restrictions,omitempty"`
	// EtcdHelper says which image the Jobs use that inspect databases.
	// +optional
	EtcdHelper EtcdHelperConfiguration `json:"etcdHelper,omitempty"`
	// ResourceManager says who applies the ManagedResources that the operator writes.
	// +optional
	ResourceManager ResourceManagerConfiguration `json:"resourceManager,omitempty"`
	// Predecessor says what becomes of the etcd-druid that gardenlet and gardener-operator install as Deployment
	// garden/etcd-druid: StandBy, TakeOver or GiveBack. Default StandBy.
	// +optional
	Predecessor PredecessorPolicy `json:"predecessor,omitempty"`
	// FeatureGates enables features that are not generally available, by name. An unknown name is invalid. UpgradeEtcdVersion makes the newest
	// version of etcd the default, see spec.etcd.version of an Etcd. A running cluster changes when its next generation is rolled out.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Logging sets level and format of the log.
	// +optional
	Logging LogConfiguration `json:"logging,omitempty"`
}

// FeatureUpgradeEtcdVersion is the feature gate with which the newest version of etcd is the default of clusters. Default: false.
const FeatureUpgradeEtcdVersion = "UpgradeEtcdVersion"

// IsEnabled is true if the feature gate is enabled. Without a value it is not.
func (c *OperatorConfiguration) IsEnabled(featureGate string) bool {
	return c.FeatureGates[featureGate]
}

// ClientConnectionConfiguration limits how fast the operator talks to the API server.
type ClientConnectionConfiguration struct {
	// QPS is the sustained number of requests a second. Zero means the default, 500; a negative value switches the
	// limit off.
	// +optional
	QPS float32 `json:"qps,omitempty"`
	// Burst is the number of requests above QPS that are let through at once. Zero means the default, 1000.
	// +optional
	Burst int `json:"burst,omitempty"`
	// ContentType is what the operator sends. Empty means JSON.
	// +optional
	ContentType string `json:"contentType,omitempty"`
	// AcceptContentTypes is the Accept header of the operator's requests. Empty means that of ContentType.
	// +optional
	AcceptContentTypes string `json:"acceptContentTypes,omitempty"`
}

// LeaderElectionConfiguration elects the replica that reconciles.
type LeaderElectionConfiguration struct {
	// Enabled switches the election on. Nil means true: two replicas that both act on an etcd cluster can cost its
	// quorum, so that only an explicit false switches it off. (etcd-druid's default is false.)
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// LeaseDuration is how long a lease is valid that is not renewed. Default 15s.
	// +optional
	LeaseDuration *metav1.Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is how long the leader tries to renew before it gives up; below LeaseDuration. Default 10s.
	// +optional
	RenewDeadline *metav1.Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the pause between two attempts to acquire or renew the lease. Default 2s.
	// +optional
	RetryPeriod *metav1.Duration `json:"retryPeriod,omitempty"`
	// ResourceLock is the kind of object that holds the election; only leases is supported. Default leases.
	// +optional
	ResourceLock string `json:"resourceLock,omitempty"`
	// ResourceName is the name of the Lease. Default druid-leader-election.
	// +optional
	ResourceName string `json:"resourceName,omitempty"`
	// ResourceNamespace is the namespace of the Lease. Empty means that of the operator's pod.
	// +optional
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
}

// ServerConfiguration holds the addresses on which the operator itself serves.
type ServerConfiguration struct {
	// Webhooks is the address and the certificate of the admission webhooks. Default port 9443.
	// +optional
	Webhooks *TLSServer `json:"webhooks,omitempty"`
	// Metrics is the address of /metrics, in plain HTTP. Default port 8080.
	// +optional
	Metrics *Server `json:"metrics,omitempty"`
	// HealthProbes is the address of /healthz and /readyz, in plain HTTP. Default port 8081.
	// +optional
	HealthProbes *Server `json:"healthProbes,omitempty"`
}

// Server is an address to listen on.
type Server struct {
	// BindAddress is the host or IP address without port. Empty means all interfaces.
	// +optional
	BindAddress string `json:"bindAddress,omitempty"`
	// Port is the TCP port. Zero means the default of the server; -1 means that nothing is served.
	// +optional
	Port int `json:"port,omitempty"`
}

// TLSServer is an address to listen on with a certificate.
type TLSServer struct {
	Server `json:",inline"`

	// ServerCertDir is a folder with tls.crt and tls.key. Default /etc/webhook-server-tls.
	// +optional
	ServerCertDir string `json:"serverCertDir,omitempty"`
	// ManagedCertificate makes the operator issue and renew the certificate, write it into ServerCertDir, and register the
	// webhook itself. Default false: another component issues the certificate and registers the webhook.
	// +optional
	ManagedCertificate bool `json:"managedCertificate,omitempty"`
}

// DebuggingConfiguration switches profiling on.
type DebuggingConfiguration struct {
	// EnableProfiling serves pprof below /debug/pprof of the metrics address. A request needs the token of a user with the
	// permission get for this non-resource URL. The API server authenticates and authorizes it (TokenReview and
	// SubjectAccessReview). Default false.
	// +optional
	EnableProfiling bool `json:"enableProfiling,omitempty"`
	// EnableContentionProfiling adds lock contention to the profiles; needs EnableProfiling. Default false.
	// +optional
	EnableContentionProfiling bool `json:"enableContentionProfiling,omitempty"`
}

// ResourceManagerConfiguration says who applies the ManagedResources that the operator writes.
type ResourceManagerConfiguration struct {
	// Embedded runs gardener-resource-manager's controllers for the class seed in the operator's process. For clusters
	// that have no gardener-resource-manager; the operator refuses to start where it finds one. Default false.
	// +optional
	Embedded bool `json:"embedded,omitempty"`
	// SyncPeriod is how often the embedded controllers apply all resources again. Default 1h.
	// +optional
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// EtcdHelperConfiguration says which image the Jobs use that inspect databases with etcd-helper.
type EtcdHelperConfiguration struct {
	// Image is a complete reference to the operator's image, which contains etcd-helper. It has to be of the same version as the
	// operator. Empty: the operator uses the image of its own pod. If it cannot read its pod, restores are not verified and wait.
	// +optional
	Image string `json:"image,omitempty"`
	// ImagePullSecrets name the Secrets with which the kubelet pulls the image. Each namespace with an Etcd needs these Secrets if
	// its nodes cannot pull the image without them. Nil: none.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// LocalStoreConfiguration says which directories of nodes Etcds may use as backup store.
type LocalStoreConfiguration struct {
	// Roots are the directories of nodes in which stores with the provider Local may keep their folders. Each root is an absolute
	// path in its shortest form, and no root is inside another one. A store uses exactly one folder in a root, named as its
	// container, and each Etcd of the cluster can use each of these folders. Nil: /etc/gardener/local-backupbuckets where
	// Gardener's CustomResourceDefinitions are installed, else none. An empty list: none. A store in another directory is refused.
	// +optional
	Roots []string `json:"roots,omitempty"`
}

// RestrictionsConfiguration says which values the authors of Etcds and tasks may select. In each list, nil allows all values, and an empty list
// allows none. The operator rolls out no generation with another value. An Etcd that runs with such a value keeps it, and its last accepted generation.
type RestrictionsConfiguration struct {
	// AllowedAnnotations are the keys of annotations on pods and on client Services. An entry that ends with * allows all keys with the
	// prefix before it. They concern spec.annotations and spec.etcd.clientService.annotations of Etcds.
	// +optional
	AllowedAnnotations []string `json:"allowedAnnotations,omitempty"`
	// AllowedLabels are the keys of labels on pods and on client Services, in the same format. They concern spec.labels and
	// spec.etcd.clientService.labels of Etcds, and spec.podLabels of EtcdCopyBackupsTasks.
	// +optional
	AllowedLabels []string `json:"allowedLabels,omitempty"`
	// AllowedPriorityClasses are the values of spec.priorityClassName of Etcds, in the same format. An Etcd without a PriorityClass is always allowed.
	// +optional
	AllowedPriorityClasses []string `json:"allowedPriorityClasses,omitempty"`
	// AllowedEndpoints are the hosts to which the operator connects although they are no pods of the Etcd. An entry is a host name, an IP
	// address, or an address range in CIDR notation. The prefix *. before a domain allows all hosts below it. They concern
	// spec.externallyManagedMemberAddresses and the hosts in spec.etcd.bootstrapWithExistingCluster.clientEndpoints. They also concern the client URLs
	// that members of an existing cluster advertise: the operator does not connect to other hosts.
	// +optional
	AllowedEndpoints []string `json:"allowedEndpoints,omitempty"`
}

// RenderingConfiguration holds what changes the objects of Etcds.
type RenderingConfiguration struct {
	// IPFamilies are the IP families of pods in this cluster, IPv4 or IPv6 or both, the primary one first. Members listen
	// on the wildcard address of them, and Services request both where there are two. Empty means IPv4.
	// +optional
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// NamespaceSelectors select the namespaces from which Gardener's network policies let the operator reach the members;
	// they are added to the annotation of the client Service. Empty, as outside of Gardener, adds none.
	// +optional
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`
	// NetworkPolicies restrict the connections of the pods of each Etcd. Nil: the operator creates no NetworkPolicies, as in
	// Gardener, where gardener-resource-manager creates them for the Services.
	// +optional
	NetworkPolicies *NetworkPolicyConfiguration `json:"networkPolicies,omitempty"`
	// NetworkPolicyScope is which Etcds get NetworkPolicies. It has no effect without NetworkPolicies. Empty: All.
	// +optional
	NetworkPolicyScope NetworkPolicyScope `json:"networkPolicyScope,omitempty"`
}

// NetworkPolicyScope is a set of Etcds.
type NetworkPolicyScope string

const (
	// NetworkPolicyScopeAll contains each Etcd.
	NetworkPolicyScopeAll NetworkPolicyScope = "All"
	// NetworkPolicyScopeNew does not contain Etcds that have run without NetworkPolicies. The connections of their clients continue.
	NetworkPolicyScopeNew NetworkPolicyScope = "New"
)

// NetworkPolicyConfiguration names the other ends of the connections of etcd pods. Each peer has a podSelector, a
// namespaceSelector, both, or an ipBlock. Without a namespaceSelector, a podSelector selects pods in the namespace of the Etcd.
type NetworkPolicyConfiguration struct {
	// Operator are the pods of the operator. They connect to the ports of etcd and of the sidecar. At least one is required:
	// otherwise the operator reaches no member.
	Operator []networkingv1.NetworkPolicyPeer `json:"operator"`
	// Clients are the pods of applications. They connect to the client port of etcd. Nil: all pods in the namespace of the Etcd.
	// An empty list: none.
	// +optional
	Clients []networkingv1.NetworkPolicyPeer `json:"clients"`
	// Monitoring are the pods that scrape metrics. They connect to the ports of etcd and of the sidecar. Empty: none.
	// +optional
	Monitoring []networkingv1.NetworkPolicyPeer `json:"monitoring,omitempty"`
	// DNS are the DNS servers. Nil: port 53 of every address. An empty list: none.
	// +optional
	DNS []networkingv1.NetworkPolicyPeer `json:"dns"`
	// APIServer are the addresses of the API server. Nil: the ports 443 and 6443 of every address. An empty list: none.
	// +optional
	APIServer []networkingv1.NetworkPolicyPeer `json:"apiServer"`
	// Stores are the addresses of backup stores. Nil: pods that use a store may connect to every address and port, because the
	// addresses of object stores change. An empty list: none.
	// +optional
	Stores []networkingv1.NetworkPolicyPeer `json:"stores"`
}

// WebhookConfiguration configures the admission webhooks.
type WebhookConfiguration struct {
	// EtcdComponentProtection rejects changes to the objects of an Etcd by others than the operator.
	// +optional
	EtcdComponentProtection EtcdComponentProtectionWebhookConfiguration `json:"etcdComponentProtection,omitempty"`
	// Eviction delays the eviction of the only member of an Etcd with the update strategy Surge.
	// +optional
	Eviction EvictionWebhookConfiguration `json:"eviction,omitempty"`
}

// EvictionWebhookConfiguration configures the webhook for evictions. The operator registers this webhook only if it manages the
// certificate, see TLSServer.
type EvictionWebhookConfiguration struct {
	// Enabled rejects the eviction of the only member for at most ten minutes, until the operator has replaced it. Default true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// EtcdComponentProtectionWebhookConfiguration configures the protection of an Etcd's objects.
type EtcdComponentProtectionWebhookConfiguration struct {
	// Enabled switches the webhook on. Default false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// ReconcilerServiceAccountFQDN is the operator's own account, system:serviceaccount:<namespace>:<name>.
	//
	// Deprecated: use ServiceAccountInfo. Exactly one of both is set when the webhook is enabled.
	// +optional
	ReconcilerServiceAccountFQDN *string `json:"reconcilerServiceAccountFQDN,omitempty"`
	// ServiceAccountInfo is the operator's own account.
	// +optional
	ServiceAccountInfo *ServiceAccountInfo `json:"serviceAccountInfo,omitempty"`
	// ExemptServiceAccounts may change the objects too, each as system:serviceaccount:<namespace>:<name>.
	// +optional
	ExemptServiceAccounts []string `json:"exemptServiceAccounts,omitempty"`
	// ExemptUsers may change the objects too. They are names of users as the API server knows them.
	// +optional
	ExemptUsers []string `json:"exemptUsers,omitempty"`
	// Drainers may delete pods, as those do who drain nodes and do not wait for evictions for ever. They are names of users
	// as the API server knows them, those of service accounts included.
	// +optional
	Drainers []string `json:"drainers,omitempty"`
}

// ServiceAccountInfo names a service account.
type ServiceAccountInfo struct {
	// Name of the service account.
	Name string `json:"name"`
	// Namespace of the service account.
	Namespace string `json:"namespace"`
}

// PredecessorPolicy says what becomes of the etcd-druid that gardenlet and gardener-operator install.
type PredecessorPolicy string

const (
	// PredecessorStandBy leaves the Etcds to it as long as it is at work.
	PredecessorStandBy PredecessorPolicy = "StandBy"
	// PredecessorTakeOver switches it off, and acts when it is gone.
	PredecessorTakeOver PredecessorPolicy = "TakeOver"
	// PredecessorGiveBack hands all Etcds over to it, switches it on again, and acts no more.
	PredecessorGiveBack PredecessorPolicy = "GiveBack"
)

// LogLevel is the least severe level that is logged.
type LogLevel string

// LogFormat is how a log line is written.
type LogFormat string

const (
	// LogLevelDebug logs everything.
	LogLevelDebug LogLevel = "debug"
	// LogLevelInfo logs what an operator of the system wants to see.
	LogLevelInfo LogLevel = "info"
	// LogLevelError logs errors only.
	LogLevelError LogLevel = "error"

	// LogFormatJSON writes one JSON object a line.
	LogFormatJSON LogFormat = "json"
	// LogFormatText writes lines for people.
	LogFormatText LogFormat = "text"
)

// LogConfiguration sets level and format of the log.
type LogConfiguration struct {
	// LogLevel is debug, info or error. Default info.
	// +optional
	LogLevel LogLevel `json:"logLevel,omitempty"`
	// LogFormat is json or text. Default json.
	// +optional
	LogFormat LogFormat `json:"logFormat,omitempty"`
}
