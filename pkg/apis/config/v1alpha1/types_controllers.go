// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ControllerConfiguration configures each controller.
type ControllerConfiguration struct {
	// DisableLeaseCache reads Leases from the API server each time.
	//
	// Deprecated: accepted without effect; the cache of Leases holds only those of Etcds.
	// +optional
	DisableLeaseCache bool `json:"disableLeaseCache,omitempty"`
	// Etcd configures the controllers that roll out an Etcd and that watch over its health.
	// +optional
	Etcd EtcdControllerConfiguration `json:"etcd,omitempty"`
	// Compaction configures the compaction of delta snapshots.
	// +optional
	Compaction CompactionControllerConfiguration `json:"compaction,omitempty"`
	// EtcdCopyBackupsTask configures the copying of backups.
	// +optional
	EtcdCopyBackupsTask EtcdCopyBackupsTaskControllerConfiguration `json:"etcdCopyBackupsTask,omitempty"`
	// Secret configures the protection of Secrets that an Etcd uses.
	// +optional
	Secret SecretControllerConfiguration `json:"secret,omitempty"`
	// EtcdOpsTask configures the tasks that are run on an Etcd.
	// +optional
	EtcdOpsTask EtcdOpsTaskControllerConfiguration `json:"etcdOpsTask,omitempty"`
	// RestoreDrill configures drills that prove that backups can be restored.
	// +optional
	RestoreDrill RestoreDrillControllerConfiguration `json:"restoreDrill,omitempty"`
}

// EtcdControllerConfiguration configures the controllers of an Etcd's spec and health.
type EtcdControllerConfiguration struct {
	// ConcurrentSyncs is how many Etcds are worked on at the same time, above 0. Default 3.
	// +optional
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// EnableEtcdSpecAutoReconcile reconciles each change of a spec immediately, without the operation annotation.
	// Default false.
	// +optional
	EnableEtcdSpecAutoReconcile bool `json:"enableEtcdSpecAutoReconcile,omitempty"`
	// DisableEtcdServiceAccountAutomount keeps the token out of the etcd pods.
	//
	// Deprecated: accepted without effect; the token is never mounted automatically, and the sidecar alone has one.
	// +optional
	DisableEtcdServiceAccountAutomount bool `json:"disableEtcdServiceAccountAutomount,omitempty"`
	// EtcdStatusSyncPeriod is the interval in which the state of the members is read. While nothing changes in a healthy cluster, the operator reads
	// only what the members respond. It reads everything else in every eighth interval, and at least every two minutes. It reads a healthy single
	// member every four intervals or every minute, whichever is shorter, but not more often than the interval. It reads everything else of a single
	// member, and of a cluster without members, at least every five minutes. Default 15s.
	// +optional
	EtcdStatusSyncPeriod *metav1.Duration `json:"etcdStatusSyncPeriod,omitempty"`
	// EtcdMember says when a member without heartbeat counts as unknown and as not ready.
	// +optional
	EtcdMember EtcdMemberConfiguration `json:"etcdMember,omitempty"`
	// DataComparisonPeriod is the time between two comparisons of the data of all voting members of a multi-member cluster. A member completes no write
	// while it computes the hash of its data. 0s disables the comparison. Default 6h.
	// +optional
	DataComparisonPeriod *metav1.Duration `json:"dataComparisonPeriod,omitempty"`
	// StoreTimeout is how long the replacement of a member on a lost node waits for the backup store, from the last heartbeat of the
	// member. After that the member is replaced without a full snapshot, if a quorum has the recorded revision. 0s waits without limit.
	// Default 30m: two attempts to take a full snapshot with the default timeout of 15m, and one more failure in that time costs the
	// quorum.
	// +optional
	StoreTimeout *metav1.Duration `json:"storeTimeout,omitempty"`
	// DefaultUpdateStrategy is how the operator replaces the only member of an Etcd whose spec and annotations do not select it: Surge or Restart. It
	// applies to all Etcds at once, also to adopted ones, and replaces no member by itself. A surge needs a second volume and the resources of a second
	// pod for about half a minute. Default Restart.
	// +optional
	DefaultUpdateStrategy druidv1alpha1.UpdateStrategy `json:"defaultUpdateStrategy,omitempty"`
	// NewEtcdVersion is the minor version of etcd of new Etcds whose spec has none. An Etcd that runs or is adopted keeps its version. With the feature
	// gate UpgradeEtcdVersion, the newest version is the default of all Etcds. Empty: 3.4. The chart sets 3.5 outside of Gardener.
	// +optional
	NewEtcdVersion string `json:"newEtcdVersion,omitempty"`
	// Defragmentation says when the operator defragments members although no database is full.
	// +optional
	Defragmentation DefragmentationConfiguration `json:"defragmentation,omitempty"`
	// Recovery limits the recoveries from a lost quorum that the operator begins by the recovery policies AutoIfNoLoss and Auto.
	// +optional
	Recovery RecoveryConfiguration `json:"recovery,omitempty"`
	// Rollout limits how many Etcds change to new defaults of the operator, such as images, at once.
	// +optional
	Rollout RolloutConfiguration `json:"rollout,omitempty"`
}

// RolloutConfiguration limits how many Etcds change to new defaults of the operator, such as images, at once. An update uses a slot from its begin until
// all members were ready with the new defaults for CanaryPeriod.
type RolloutConfiguration struct {
	// Enabled applies the limits. With an explicit false, each Etcd changes to new defaults with its next accepted generation or operation annotation.
	// Default true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// Total limits the slots of all Etcds. Default: number 20 and percentage 10.
	// +optional
	Total *RolloutLimit `json:"total,omitempty"`
	// PerZone limits the slots of Etcds with members in the same zone. Etcds whose zone is not known count as one zone. Default: percentage 10.
	// +optional
	PerZone *RolloutLimit `json:"perZone,omitempty"`
	// PerChange limits the slots of Etcds with the same old and new defaults. Default: percentage 10.
	// +optional
	PerChange *RolloutLimit `json:"perChange,omitempty"`
	// Canaries is the number of Etcds that must pass before others with the same old and new defaults follow. 0: none. Default 1.
	// +optional
	Canaries *int `json:"canaries,omitempty"`
	// CanaryPeriod is how long all members must be ready with the new defaults. Default 5m.
	// +optional
	CanaryPeriod *metav1.Duration `json:"canaryPeriod,omitempty"`
	// Timeout is how long members may be not ready before the update has failed. An update that has not passed after six times this has failed too.
	// Default 10m.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// RolloutLimit is a number, a percentage of Etcds, or the lower of both. It is never below 1. Without both, there is no limit.
type RolloutLimit struct {
	// Number is a number of Etcds, above 0.
	// +optional
	Number *int `json:"number,omitempty"`
	// Percentage is a percentage of the Etcds that do not hibernate, from 1 to 100, rounded down.
	// +optional
	Percentage *int `json:"percentage,omitempty"`
}

// DefragmentationConfiguration says when the operator defragments members although no database is full.
type DefragmentationConfiguration struct {
	// Window is how long after a time of spec.etcd.defragmentationSchedule a defragmentation may start, above 0. The operator can miss a
	// window of less than ten minutes, since it observes a healthy single member every five minutes. Default 1h.
	// +optional
	Window *metav1.Duration `json:"window,omitempty"`
	// MinReclaimableSize is how much of a database file must be free. At least half of it must be free too, or a tenth of a file of more than 80% of the
	// quota. Such a file need not have this size free. Default 200Mi.
	// +optional
	MinReclaimableSize *resource.Quantity `json:"minReclaimableSize,omitempty"`
	// StallBudget limits for how long a planned defragmentation may interrupt a member. The operator predicts that time from the last defragmentation of
	// the Etcd, or with 10 seconds for each gibibyte in use. It reports what it refuses. The annotation
	// druid.gardener.cloud/defragmentation-stall-budget of an Etcd replaces it. Default 0s: no limit.
	// +optional
	StallBudget *metav1.Duration `json:"stallBudget,omitempty"`
}

// RecoveryConfiguration limits the recoveries from a lost quorum that the operator begins by a recovery policy.
type RecoveryConfiguration struct {
	// DwellTime is how long a quorum must be lost forever before the operator chooses an option. Default 10m.
	// +optional
	DwellTime *metav1.Duration `json:"dwellTime,omitempty"`
	// MaxClusters is the largest number of clusters without a quorum with which the operator chooses an option. Clusters whose quorum is not known count
	// too. More of them at once are a fault of the network or of the nodes. 0: the operator never chooses. Default 3.
	// +optional
	MaxClusters *int `json:"maxClusters,omitempty"`
}

// EtcdMemberConfiguration says when a member without heartbeat counts as unknown and as not ready.
type EtcdMemberConfiguration struct {
	// NotReadyThreshold is how long a member is unknown before it counts as not ready. Default 5m.
	// +optional
	NotReadyThreshold *metav1.Duration `json:"notReadyThreshold,omitempty"`
	// UnknownThreshold is the time without heartbeat after which a member counts as unknown. Default 1m.
	// +optional
	UnknownThreshold *metav1.Duration `json:"unknownThreshold,omitempty"`
}

// CompactionControllerConfiguration configures the compaction of delta snapshots.
type CompactionControllerConfiguration struct {
	// Enabled switches compaction on. Default false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is how many Etcds are worked on at the same time, above 0. Default 3.
	// +optional
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// EventsThreshold is the number of revisions since the last full snapshot that starts a compaction.
	// Default 1000000.
	// +optional
	EventsThreshold int64 `json:"eventsThreshold,omitempty"`
	// TriggerFullSnapshotThreshold is the number of revisions since the last full snapshot above which a full snapshot
	// is taken instead of a compaction. Default 3000000.
	// +optional
	TriggerFullSnapshotThreshold int64 `json:"triggerFullSnapshotThreshold,omitempty"`
	// ActiveDeadlineDuration is how long one compaction may take. Default 3h.
	// +optional
	ActiveDeadlineDuration *metav1.Duration `json:"activeDeadlineDuration,omitempty"`
	// MetricsScrapeWaitDuration is how long the compaction waits at its end for its metrics to be scraped. Default 0s.
	// +optional
	MetricsScrapeWaitDuration *metav1.Duration `json:"metricsScrapeWaitDuration,omitempty"`
}

// RestoreDrillControllerConfiguration configures drills that prove that backups can be restored.
type RestoreDrillControllerConfiguration struct {
	// Period is the time between two drills of each Etcd whose annotations do not select it, 0 or at least 1m. The drills of many Etcds are spread over
	// the period. Each one needs the resources of a compaction. 0s schedules none. Default 0s.
	// +optional
	Period *metav1.Duration `json:"period,omitempty"`
	// MaxConcurrentDrills is the number of drills of all Etcds at which no further one is scheduled, above 0. Default 2.
	// +optional
	MaxConcurrentDrills *int `json:"maxConcurrentDrills,omitempty"`
}

// EtcdCopyBackupsTaskControllerConfiguration configures the copying of backups.
type EtcdCopyBackupsTaskControllerConfiguration struct {
	// Enabled switches the controller on. Default false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is how many tasks are worked on at the same time, above 0. Default 3.
	// +optional
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

// SecretControllerConfiguration configures the protection of Secrets that an Etcd uses.
type SecretControllerConfiguration struct {
	// ConcurrentSyncs is how many Secrets are worked on at the same time, above 0. Default 10.
	// +optional
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// DisableProtection removes the finalizers of the operator from all Secrets, and adds none. Default false.
	// +optional
	DisableProtection bool `json:"disableProtection,omitempty"`
}

// EtcdOpsTaskControllerConfiguration configures the tasks that are run on an Etcd.
type EtcdOpsTaskControllerConfiguration struct {
	// ConcurrentSyncs is how many tasks are worked on at the same time, above 0. Default 3.
	// +optional
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// RequeueInterval is the interval in which a running task is checked, above 0. Default 15s.
	// +optional
	RequeueInterval *metav1.Duration `json:"requeueInterval,omitempty"`
}
