// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupSpec configures the sidecar of each member: snapshots, their storage and their retention. A change replaces the
// pods one by one.
// +kubebuilder:validation:XValidation:rule="!has(self.deltaSnapshotPeriod) || !has(self.garbageCollectionPeriod) || duration(self.deltaSnapshotPeriod) < duration(self.garbageCollectionPeriod)",message="spec.backup.garbageCollectionPeriod must be longer than spec.backup.deltaSnapshotPeriod"
type BackupSpec struct {
	// Port is the port of the sidecar's HTTP server; all members use the same. Unset: 8080.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
	// TLS names the secrets of the sidecar's HTTP server. Unset: the server uses those of spec.etcd.clientUrlTls, if
	// any. It cannot be set on creation without spec.etcd.clientUrlTls.
	// +optional
	TLS *TLSConfig `json:"tls,omitempty"`
	// Image is the full image reference of etcd-backup-restore. Unset: the operator's.
	// At most 1024 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image *string `json:"image,omitempty"`
	// Store says where snapshots lie. Unset: there are no snapshots, and the sidecar only checks the data directory.
	// +optional
	Store *StoreSpec `json:"store,omitempty"`
	// Resources of the sidecar. Unset: requests of 50m CPU and 128Mi memory, no limits.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// SnapshotCompaction configures the Job that compacts snapshots. Unset: all of it is the operator's. A change of it
	// replaces no pod.
	// +optional
	SnapshotCompaction *SnapshotCompactionSpec `json:"snapshotCompaction,omitempty"`
	// FullSnapshotSchedule is the schedule of full snapshots. It is a cron expression with five fields in UTC: minute, hour,
	// day of the month, month and day of the week (0 is Sunday). Unset: the sidecar's default, hourly. A full snapshot is also
	// taken when the sidecar starts and the newest one is too old.
	// At most 256 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^(\*|([1-5]?[0-9])(-([1-5]?[0-9]))?)(/[1-9][0-9]?)?(,(\*|([1-5]?[0-9])(-([1-5]?[0-9]))?)(/[1-9][0-9]?)?)*\s+(\*|(1?[0-9]|2[0-3])(-(1?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,(\*|(1?[0-9]|2[0-3])(-(1?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)*\s+(\*|([1-9]|[12][0-9]|3[01])(-([1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,(\*|([1-9]|[12][0-9]|3[01])(-([1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)*\s+(\*|([1-9]|1[0-2])(-([1-9]|1[0-2]))?)(/[1-9][0-9]?)?(,(\*|([1-9]|1[0-2])(-([1-9]|1[0-2]))?)(/[1-9][0-9]?)?)*\s+(\*|([0-7])(-([0-7]))?)(/[1-9][0-9]?)?(,(\*|([0-7])(-([0-7]))?)(/[1-9][0-9]?)?)*$`
	FullSnapshotSchedule *string `json:"fullSnapshotSchedule,omitempty"`
	// GarbageCollectionPolicy says which snapshots are removed. Unset: LimitBased.
	// +optional
	GarbageCollectionPolicy *GarbageCollectionPolicy `json:"garbageCollectionPolicy,omitempty"`
	// MaxBackupsLimitBasedGC is the number of full snapshots that LimitBased keeps; Exponential ignores it. Unset: 7.
	// It must be between 1 and 10000.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxBackupsLimitBasedGC *int32 `json:"maxBackupsLimitBasedGC,omitempty"`
	// GarbageCollectionPeriod is how often snapshots are removed. It must be longer than DeltaSnapshotPeriod where both are
	// set. Unset: the sidecar's default, 1m.
	// It must be between 1s and 720h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="must be between 1s and 720h"
	GarbageCollectionPeriod *metav1.Duration `json:"garbageCollectionPeriod,omitempty"`
	// DeltaSnapshotPeriod is how often delta snapshots are taken. Below one second: none are. Unset: the sidecar's default,
	// 20s.
	// It must be between 0s and 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="must be between 0s and 24h"
	DeltaSnapshotPeriod *metav1.Duration `json:"deltaSnapshotPeriod,omitempty"`
	// DeltaSnapshotMemoryLimit is the size of events in memory at which a delta snapshot is taken early. Unset: 100Mi.
	// It must be between 1Mi and 16Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Gi')) <= 0",message="must be between 1Mi and 16Gi; the suffix m is milli, and Mi is 1024 × 1024"
	DeltaSnapshotMemoryLimit *resource.Quantity `json:"deltaSnapshotMemoryLimit,omitempty"`
	// DeltaSnapshotRetentionPeriod is how long delta snapshots older than the newest full snapshot are kept. Unset: the
	// sidecar's default, 0, that is until the next garbage collection.
	// It must be between 0s and 87600h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('87600h')",message="must be between 0s and 87600h"
	DeltaSnapshotRetentionPeriod *metav1.Duration `json:"deltaSnapshotRetentionPeriod,omitempty"`
	// SnapshotCompression configures the compression of snapshots.
	// +optional
	SnapshotCompression *CompressionSpec `json:"compression,omitempty"`
	// EnableProfiling serves Go's pprof on the sidecar's port. Unset: false.
	// +optional
	EnableProfiling *bool `json:"enableProfiling,omitempty"`
	// EtcdSnapshotTimeout is the time limit of one full snapshot. Unset: 15m.
	// It must be between 1s and 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	EtcdSnapshotTimeout *metav1.Duration `json:"etcdSnapshotTimeout,omitempty"`
	// LeaderElection configures how sidecars find out which of them leads.
	// +optional
	LeaderElection *LeaderElectionSpec `json:"leaderElection,omitempty"`

	DeprecatedBackupFields `json:",inline"`
}

// GarbageCollectionPolicy says which snapshots are removed.
// +kubebuilder:validation:Enum=Exponential;LimitBased
type GarbageCollectionPolicy string

const (
	// GarbageCollectionPolicyExponential thins out older snapshots: all of the last hours, then one an hour, a day, a week.
	GarbageCollectionPolicyExponential GarbageCollectionPolicy = "Exponential"
	// GarbageCollectionPolicyLimitBased keeps a number of full snapshots.
	GarbageCollectionPolicyLimitBased GarbageCollectionPolicy = "LimitBased"
)

// CompressionSpec configures the compression of snapshots.
type CompressionSpec struct {
	// Enabled compresses snapshots. Unset: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// Policy is the algorithm. Unset: gzip.
	// +optional
	Policy *CompressionPolicy `json:"policy,omitempty"`
}

// CompressionPolicy is an algorithm of compression.
// +kubebuilder:validation:Enum=gzip;lzw;zlib
type CompressionPolicy string

const (
	// GzipCompression is gzip.
	GzipCompression CompressionPolicy = "gzip"
	// LzwCompression is LZW.
	LzwCompression CompressionPolicy = "lzw"
	// ZlibCompression is zlib.
	ZlibCompression CompressionPolicy = "zlib"

	// DefaultCompression is the algorithm where none is given.
	DefaultCompression = GzipCompression
	// DefaultCompressionEnabled is whether snapshots are compressed where nothing is given.
	DefaultCompressionEnabled bool = true
)

// LeaderElectionSpec configures how sidecars find out which of them leads.
type LeaderElectionSpec struct {
	// ReelectionPeriod is how often a sidecar asks which member leads; longer than one second. Unset:
	// the sidecar's default, 5s.
	// It must be between 1001ms and 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1001ms') && duration(self) <= duration('1h')",message="must be between 1001ms and 1h"
	ReelectionPeriod *metav1.Duration `json:"reelectionPeriod,omitempty"`
	// EtcdConnectionTimeout is the time limit of asking; longer than one second. Unset: the sidecar's default, 5s.
	// It must be between 1001ms and 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1001ms') && duration(self) <= duration('1h')",message="must be between 1001ms and 1h"
	EtcdConnectionTimeout *metav1.Duration `json:"etcdConnectionTimeout,omitempty"`
}

// SnapshotCompactionSpec configures the Job that compacts snapshots.
type SnapshotCompactionSpec struct {
	// Resources of the Job's container. Unset: requests of 600m CPU and 3Gi memory, no limits.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// EventsThreshold is the number of etcd events since the last full snapshot from which on a Job runs. Unset: the
	// operator's.
	// It must be at least 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EventsThreshold *int64 `json:"eventsThreshold,omitempty"`
	// TriggerFullSnapshotThreshold is the number of etcd events since the last full snapshot from which on a full
	// snapshot is taken instead of running a Job. Unset: the operator's.
	// It must be at least 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TriggerFullSnapshotThreshold *int64 `json:"triggerFullSnapshotThreshold,omitempty"`
}
