// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupSpec configures the sidecar of each member: snapshots, their storage and their retention.
type BackupSpec struct {
	// Port is the port of the sidecar's HTTP server. Unset: 8080.
	// +optional
	Port *int32 `json:"port,omitempty"`
	// TLS names the secrets of the sidecar's HTTP server.
	// +optional
	TLS *TLSConfig `json:"tls,omitempty"`
	// Image is the full image reference of etcd-backup-restore. Unset: the operator's.
	// +optional
	Image *string `json:"image,omitempty"`
	// Store says where snapshots lie. Unset: there are no snapshots.
	// +optional
	Store *StoreSpec `json:"store,omitempty"`
	// Resources of the sidecar. Unset: requests 50m CPU and 128Mi memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// SnapshotCompaction configures the Job that compacts snapshots.
	// +optional
	SnapshotCompaction *SnapshotCompactionSpec `json:"snapshotCompaction,omitempty"`
	// FullSnapshotSchedule is a cron expression of five fields, in UTC. Unset: the sidecar's default, hourly.
	// +optional
	FullSnapshotSchedule *string `json:"fullSnapshotSchedule,omitempty"`
	// GarbageCollectionPolicy says which snapshots are removed. Unset: LimitBased.
	// +optional
	GarbageCollectionPolicy *GarbageCollectionPolicy `json:"garbageCollectionPolicy,omitempty"`
	// MaxBackupsLimitBasedGC is the number of full snapshots that LimitBased keeps. Unset: 7.
	// +optional
	MaxBackupsLimitBasedGC *int32 `json:"maxBackupsLimitBasedGC,omitempty"`
	// GarbageCollectionPeriod is how often snapshots are removed. Unset: the sidecar's default, 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	GarbageCollectionPeriod *metav1.Duration `json:"garbageCollectionPeriod,omitempty"`
	// DeltaSnapshotPeriod is how often delta snapshots are taken. Unset: the sidecar's default, 20s.
	// +optional
	// +kubebuilder:validation:Type=string
	DeltaSnapshotPeriod *metav1.Duration `json:"deltaSnapshotPeriod,omitempty"`
	// DeltaSnapshotMemoryLimit is the size of events in memory at which a delta snapshot is taken early. Unset: 100Mi.
	// +optional
	DeltaSnapshotMemoryLimit *resource.Quantity `json:"deltaSnapshotMemoryLimit,omitempty"`
	// DeltaSnapshotRetentionPeriod is how long delta snapshots are kept beyond their full snapshot. Unset: 0.
	// +optional
	// +kubebuilder:validation:Type=string
	DeltaSnapshotRetentionPeriod *metav1.Duration `json:"deltaSnapshotRetentionPeriod,omitempty"`
	// SnapshotCompression configures the compression of snapshots.
	// +optional
	SnapshotCompression *CompressionSpec `json:"compression,omitempty"`
	// EnableProfiling serves Go's pprof on the sidecar's port. Unset: false.
	// +optional
	EnableProfiling *bool `json:"enableProfiling,omitempty"`
	// EtcdSnapshotTimeout is the time limit of one full snapshot. Unset: 15m.
	// +optional
	// +kubebuilder:validation:Type=string
	EtcdSnapshotTimeout *metav1.Duration `json:"etcdSnapshotTimeout,omitempty"`
	// LeaderElection configures how sidecars find out which of them leads.
	// +optional
	LeaderElection *LeaderElectionSpec `json:"leaderElection,omitempty"`

	OlderBackupForm `json:",inline"`
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
	// ReelectionPeriod is how often a sidecar asks which member leads. Unset: the sidecar's default, 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	ReelectionPeriod *metav1.Duration `json:"reelectionPeriod,omitempty"`
	// EtcdConnectionTimeout is the time limit of asking. Unset: the sidecar's default, 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	EtcdConnectionTimeout *metav1.Duration `json:"etcdConnectionTimeout,omitempty"`
}

// SnapshotCompactionSpec configures the Job that compacts snapshots.
type SnapshotCompactionSpec struct {
	// Resources of the Job's container. Unset: requests 600m CPU and 3Gi memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// EventsThreshold is the number of etcd events since the last full snapshot from which on a Job runs. Unset: the
	// operator's.
	// +optional
	EventsThreshold *int64 `json:"eventsThreshold,omitempty"`
	// TriggerFullSnapshotThreshold is the number of etcd events since the last full snapshot from which on a full
	// snapshot is taken instead of running a Job. Unset: the operator's.
	// +optional
	TriggerFullSnapshotThreshold *int64 `json:"triggerFullSnapshotThreshold,omitempty"`
}
