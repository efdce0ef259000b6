// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// The functions of this file return a setting of the spec, or its default. A default is built into the operator or into the
// sidecar. The operator does not render the defaults of the sidecar, and writes no default into the spec.

// ClientPort is the port for clients, 2379 where unset.
func ClientPort(etcd *druidv1alpha1.Etcd) int32 { return ptr.Deref(etcd.Spec.Etcd.ClientPort, 2379) }

// PeerPort is the port between members, 2380 where unset.
func PeerPort(etcd *druidv1alpha1.Etcd) int32 { return ptr.Deref(etcd.Spec.Etcd.ServerPort, 2380) }

// WrapperPort is the port of etcd-wrapper, 9095 where unset.
func WrapperPort(etcd *druidv1alpha1.Etcd) int32 { return ptr.Deref(etcd.Spec.Etcd.WrapperPort, 9095) }

// BackupPort is the port of the sidecar, 8080 where unset.
func BackupPort(etcd *druidv1alpha1.Etcd) int32 { return ptr.Deref(etcd.Spec.Backup.Port, 8080) }

// Quota is the largest size of etcd's database, 8Gi where unset.
func Quota(etcd *druidv1alpha1.Etcd) resource.Quantity {
	return ptr.Deref(etcd.Spec.Etcd.Quota, resource.MustParse("8Gi"))
}

// WithUpdateStrategy returns an Etcd whose spec has the update strategy that applies. The first one decides: the spec, UpdateStrategyAnnotation, the
// default of the operator. An annotation with another value does not count. It returns the Etcd itself if that is the one of the spec, or Restart.
func WithUpdateStrategy(etcd *druidv1alpha1.Etcd, operatorDefault druidv1alpha1.UpdateStrategy) *druidv1alpha1.Etcd {
	strategy := operatorDefault
	if annotated := druidv1alpha1.UpdateStrategy(etcd.Annotations[druidv1alpha1.UpdateStrategyAnnotation]); slices.Contains(druidv1alpha1.UpdateStrategies, annotated) {
		strategy = annotated
	}
	if etcd.Spec.Etcd.UpdateStrategy != nil || strategy != druidv1alpha1.UpdateStrategySurge {
		return etcd
	}
	resolved := etcd.DeepCopy()
	resolved.Spec.Etcd.UpdateStrategy = &strategy

	return resolved
}

// RecoveryPolicy is who chooses the data from which a cluster without a possible quorum is recovered. The first one decides: the spec,
// RecoveryPolicyAnnotation, Ask. An annotation with another value does not count.
func RecoveryPolicy(etcd *druidv1alpha1.Etcd) druidv1alpha1.RecoveryPolicy {
	annotated := druidv1alpha1.RecoveryPolicy(etcd.Annotations[druidv1alpha1.RecoveryPolicyAnnotation])
	switch {
	case etcd.Spec.RecoveryPolicy != nil:
		return *etcd.Spec.RecoveryPolicy
	case slices.Contains(druidv1alpha1.RecoveryPolicies, annotated):
		return annotated
	default:
		return druidv1alpha1.RecoveryPolicyAsk
	}
}

// UsesSurge is true if the only member is replaced through a temporary second member. False where unset, see WithUpdateStrategy, and for members
// that the operator does not start.
func UsesSurge(etcd *druidv1alpha1.Etcd) bool {
	return ptr.Deref(etcd.Spec.Etcd.UpdateStrategy, druidv1alpha1.UpdateStrategyRestart) == druidv1alpha1.UpdateStrategySurge && ManagesPods(etcd)
}

// SnapshotCount is the number of raft entries that etcd keeps in memory, 10000 where unset.
func SnapshotCount(etcd *druidv1alpha1.Etcd) int64 {
	return ptr.Deref(etcd.Spec.Etcd.SnapshotCount, 10000)
}

// Metrics is the level of detail of etcd's metrics, basic where unset.
func Metrics(etcd *druidv1alpha1.Etcd) druidv1alpha1.MetricsLevel {
	return ptr.Deref(etcd.Spec.Etcd.Metrics, druidv1alpha1.Basic)
}

// StorageCapacity is the size of a data volume, 16Gi where unset.
func StorageCapacity(etcd *druidv1alpha1.Etcd) resource.Quantity {
	return ptr.Deref(etcd.Spec.StorageCapacity, resource.MustParse("16Gi"))
}

// AutoCompactionMode is how the retention of history is counted, periodic where unset.
func AutoCompactionMode(etcd *druidv1alpha1.Etcd) druidv1alpha1.CompactionMode {
	return ptr.Deref(etcd.Spec.Common.AutoCompactionMode, druidv1alpha1.Periodic)
}

// AutoCompactionRetention is how much history etcd keeps, 30m where unset.
func AutoCompactionRetention(etcd *druidv1alpha1.Etcd) string {
	return ptr.Deref(etcd.Spec.Common.AutoCompactionRetention, "30m")
}

// HeartbeatDuration is how often a sidecar renews the lease of its member, 10s where unset.
func HeartbeatDuration(etcd *druidv1alpha1.Etcd) time.Duration {
	return durationOr(etcd.Spec.Etcd.HeartbeatDuration, 10*time.Second)
}

// DefragmentationTimeout is the time limit of one defragmentation, 15m where unset.
func DefragmentationTimeout(etcd *druidv1alpha1.Etcd) time.Duration {
	return durationOr(etcd.Spec.Etcd.EtcdDefragTimeout, 15*time.Minute)
}

// SnapshotTimeout is the time limit of one full snapshot, 15m where unset.
func SnapshotTimeout(etcd *druidv1alpha1.Etcd) time.Duration {
	return durationOr(etcd.Spec.Backup.EtcdSnapshotTimeout, 15*time.Minute)
}

// FullSnapshotSchedule is the cron expression of full snapshots; where unset the sidecar's default, hourly.
func FullSnapshotSchedule(etcd *druidv1alpha1.Etcd) string {
	return ptr.Deref(etcd.Spec.Backup.FullSnapshotSchedule, "0 */1 * * *")
}

// DeltaSnapshotPeriod is how often delta snapshots are taken; where unset the sidecar's default, 20s. Below one second
// the sidecar takes none.
func DeltaSnapshotPeriod(etcd *druidv1alpha1.Etcd) time.Duration {
	return durationOr(etcd.Spec.Backup.DeltaSnapshotPeriod, 20*time.Second)
}

// TakesDeltaSnapshots is false if DeltaSnapshotPeriod disables delta snapshots.
func TakesDeltaSnapshots(etcd *druidv1alpha1.Etcd) bool {
	return DeltaSnapshotPeriod(etcd) >= time.Second
}

// DeltaSnapshotMemoryLimit is the size of events in memory at which a delta snapshot is taken early, 100Mi where unset.
func DeltaSnapshotMemoryLimit(etcd *druidv1alpha1.Etcd) resource.Quantity {
	return ptr.Deref(etcd.Spec.Backup.DeltaSnapshotMemoryLimit, resource.MustParse("100Mi"))
}

// GarbageCollectionPolicy says which snapshots are removed, LimitBased where unset.
func GarbageCollectionPolicy(etcd *druidv1alpha1.Etcd) druidv1alpha1.GarbageCollectionPolicy {
	return ptr.Deref(etcd.Spec.Backup.GarbageCollectionPolicy, druidv1alpha1.GarbageCollectionPolicyLimitBased)
}

// MaxBackups is the number of full snapshots that LimitBased keeps, 7 where unset.
func MaxBackups(etcd *druidv1alpha1.Etcd) int32 {
	return ptr.Deref(etcd.Spec.Backup.MaxBackupsLimitBasedGC, 7)
}

// CompressionEnabled is whether snapshots are compressed, true where unset.
func CompressionEnabled(etcd *druidv1alpha1.Etcd) bool {
	compression := ptr.Deref(etcd.Spec.Backup.SnapshotCompression, druidv1alpha1.CompressionSpec{})

	return ptr.Deref(compression.Enabled, druidv1alpha1.DefaultCompressionEnabled)
}

// CompressionPolicy is the algorithm of compression, gzip where unset.
func CompressionPolicy(etcd *druidv1alpha1.Etcd) druidv1alpha1.CompressionPolicy {
	compression := ptr.Deref(etcd.Spec.Backup.SnapshotCompression, druidv1alpha1.CompressionSpec{})

	return ptr.Deref(compression.Policy, druidv1alpha1.DefaultCompression)
}

// ImagePullPolicy is the image pull policy of both containers, IfNotPresent where unset.
func ImagePullPolicy(etcd *druidv1alpha1.Etcd) corev1.PullPolicy {
	return ptr.Deref(etcd.Spec.Etcd.PullPolicy, corev1.PullIfNotPresent)
}

// SnapstoreTempDir is the directory of the sidecar's temporary files, /var/etcd/data/temp where unset.
func SnapstoreTempDir(etcd *druidv1alpha1.Etcd) string {
	return ptr.Deref(etcd.Spec.Backup.SnapstoreTempDir, "/var/etcd/data/temp")
}

func durationOr(duration *metav1.Duration, otherwise time.Duration) time.Duration {
	if duration == nil {
		return otherwise
	}

	return duration.Duration
}

// EtcdVersion returns the minor version of etcd that the spec requests. Empty: none.
func EtcdVersion(etcd *druidv1alpha1.Etcd) string {
	if etcd.Spec.Etcd.Version == nil {
		return ""
	}

	return *etcd.Spec.Etcd.Version
}

// HasOwnImage is true if the spec names an image of etcd-wrapper or of etcd-backup-restore. The operator does not know the version of etcd in it.
func HasOwnImage(etcd *druidv1alpha1.Etcd) bool {
	return etcd.Spec.Etcd.Image != nil || etcd.Spec.Backup.Image != nil
}
