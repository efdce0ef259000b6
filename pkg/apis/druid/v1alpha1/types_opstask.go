// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=eot,scope=Namespaced
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Etcd",type=string,JSONPath=`.spec.etcdName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.lastOperation.type`,priority=1
// +kubebuilder:printcolumn:name="TTL",type=integer,JSONPath=`.spec.ttlSecondsAfterFinished`,priority=1

// EtcdOpsTask is one operation on an Etcd, done once.
type EtcdOpsTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what to do.
	// +required
	Spec EtcdOpsTaskSpec `json:"spec"`
	// Status says how far it came. Only the operator writes it.
	// +optional
	Status EtcdOpsTaskStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// EtcdOpsTaskList is a list of EtcdOpsTasks.
type EtcdOpsTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdOpsTask `json:"items"`
}

// EtcdOpsTaskSpec says what to do.
// +kubebuilder:validation:XValidation:rule="(has(self.etcdName) && self.etcdName.size() > 0) || oldSelf.hasValue()",optionalOldSelf=true,message="spec.etcdName must name the Etcd on which the task acts"
// +kubebuilder:validation:XValidation:rule="has(self.etcdName) == has(oldSelf.etcdName)",message="spec.etcdName must be neither added nor removed"
type EtcdOpsTaskSpec struct {
	// Config is the operation: exactly one of its fields is set. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.config is immutable"
	Config EtcdOpsTaskConfig `json:"config"`
	// TTLSecondsAfterFinished is how long, in seconds, the task is kept after it finished. Default: 3600, set by the API
	// server. Immutable.
	// It must be between 1 and 2147483647.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.ttlSecondsAfterFinished is immutable"
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// EtcdName is the name of the Etcd, in the namespace of the task. Not required by the schema, since tasks of older
	// versions may lack it, but refused on creation where it is missing. Immutable, including its presence.
	// At most 253 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.etcdName is immutable"
	EtcdName *string `json:"etcdName,omitempty"`
}

// EtcdOpsTaskConfig is the union of all operations: exactly one field is set.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type EtcdOpsTaskConfig struct {
	// OnDemandSnapshot takes a snapshot now.
	// +optional
	OnDemandSnapshot *OnDemandSnapshotConfig `json:"onDemandSnapshot,omitempty"`
	// Compaction compacts the snapshots now, however few events there are.
	// +optional
	Compaction *CompactionConfig `json:"compaction,omitempty"`
	// Defragmentation defragments the database of every member now, one after the other and the leader last.
	// +optional
	Defragmentation *DefragmentationConfig `json:"defragmentation,omitempty"`
	// RestoreDrill proves now that the backup store contains what the cluster contains, and that the sidecar restores it.
	// +optional
	RestoreDrill *RestoreDrillConfig `json:"restoreDrill,omitempty"`
	// BackupInspection makes the data that the backup store contains readable in a pod for a limited time. The data
	// includes Secrets. Nothing of the cluster changes.
	// +optional
	BackupInspection *BackupInspectionConfig `json:"backupInspection,omitempty"`
}

// CompactionConfig configures a compaction that is run now. How the Job runs is configured in
// spec.backup.snapshotCompaction of the Etcd.
type CompactionConfig struct{}

// DefragmentationConfig configures a defragmentation that is run now. Its time limit for a member is
// spec.etcd.etcdDefragTimeout of the Etcd.
type DefragmentationConfig struct{}

// RestoreDrillConfig configures a restore drill that is run now. Its Job has the resources of
// spec.backup.snapshotCompaction of the Etcd.
type RestoreDrillConfig struct{}

// BackupInspectionConfig configures an inspection of the backup store.
type BackupInspectionConfig struct {
	// Point is the point whose data becomes readable.
	// +required
	Point BackupPoint `json:"point"`
	// CompareWith is a second point, for a comparison. Unset: none.
	// +optional
	CompareWith *BackupPoint `json:"compareWith,omitempty"`
	// TimeLimitSeconds is how long, in seconds, the data is readable. Default: 900, set by the API server.
	// It must be between 60 and 14400.
	// +optional
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=14400
	TimeLimitSeconds *int32 `json:"timeLimitSeconds,omitempty"`
}

// BackupPoint is a point of the history that the backup store contains. Without a field, it is the newest one: the sidecar
// takes a delta snapshot first, so that the store contains what the cluster contains.
// +kubebuilder:validation:MaxProperties=1
type BackupPoint struct {
	// Revision of etcd. It must be at least 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Revision *int64 `json:"revision,omitempty"`
	// Time leads to the last revision that the sidecar had received then.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// OnDemandSnapshotConfig configures a snapshot that is taken now.
// +kubebuilder:validation:XValidation:rule="self.type != 'delta' || !has(self.isFinal) || !self.isFinal",message="isFinal can only be true with type full"
type OnDemandSnapshotConfig struct {
	// Type is the kind of snapshot.
	// +required
	Type OnDemandSnapshotType `json:"type"`
	// IsFinal marks a full snapshot as the last one of the cluster. Unset: false.
	// +optional
	IsFinal *bool `json:"isFinal,omitempty"`
	// TimeoutSecondsDelta is the time limit, in seconds, of a delta snapshot. Default: 60, set by the API server.
	// It must be between 10 and 86400.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	TimeoutSecondsDelta *int32 `json:"timeoutSecondsDelta,omitempty"`
	// TimeoutSecondsFull is the time limit, in seconds, of a full snapshot. Default: 900, set by the API server.
	// It must be between 120 and 86400.
	// +optional
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=120
	// +kubebuilder:validation:Maximum=86400
	TimeoutSecondsFull *int32 `json:"timeoutSecondsFull,omitempty"`
}

// OnDemandSnapshotType is the kind of a snapshot.
// +kubebuilder:validation:Enum=full;delta
type OnDemandSnapshotType string

const (
	// OnDemandSnapshotTypeFull is a snapshot of the whole database.
	OnDemandSnapshotTypeFull OnDemandSnapshotType = "full"
	// OnDemandSnapshotTypeDelta is a snapshot of the events since the last snapshot.
	OnDemandSnapshotTypeDelta OnDemandSnapshotType = "delta"
)

// EtcdOpsTaskStatus says how far a task came.
type EtcdOpsTaskStatus struct {
	// State of the task.
	// +optional
	State *TaskState `json:"state,omitempty"`
	// LastTransitionTime is when State last changed its value.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// StartedAt is when the task first was InProgress.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// LastErrors are the newest errors of the task, ten at most.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	LastErrors []LastError `json:"lastErrors,omitempty"`
	// LastOperation is the last thing that the operator did with the task.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// Snapshot is the snapshot that the task took, or that a compaction wrote. Unset: none, also where nothing had changed
	// since the last one.
	// +optional
	Snapshot *TaskSnapshot `json:"snapshot,omitempty"`
	// Members are the members that the task defragmented so far, in that order.
	// +optional
	Members []DefragmentedMember `json:"members,omitempty"`
}

// TaskSnapshot is a snapshot in the store.
type TaskSnapshot struct {
	// Name of the snapshot in the store.
	Name string `json:"name"`
	// Revision of etcd up to which the snapshot holds everything.
	Revision int64 `json:"revision"`
	// CreatedAt is when the snapshot was taken.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
	// SizeBytes is the size of the database in use when the snapshot was taken. The sidecar does not report the size of
	// the snapshot in the store. Only for full snapshots of a cluster whose status could be read.
	// +optional
	SizeBytes *int64 `json:"sizeBytes,omitempty"`
}

// DefragmentedMember is a member whose database was defragmented.
type DefragmentedMember struct {
	// Name of the member.
	Name string `json:"name"`
	// Stall is how long the member was unavailable.
	Stall metav1.Duration `json:"stall"`
	// SizeBytesBefore is the size of the database file before.
	SizeBytesBefore int64 `json:"sizeBytesBefore"`
	// SizeBytesAfter is the size of the database file after.
	SizeBytesAfter int64 `json:"sizeBytesAfter"`
}

// TaskState is the state of an EtcdOpsTask. Succeeded, Failed and Rejected are final.
// +kubebuilder:validation:Enum=Pending;InProgress;Succeeded;Failed;Rejected
type TaskState string

const (
	// TaskStatePending means that the task was accepted and nothing was done yet.
	TaskStatePending TaskState = "Pending"
	// TaskStateInProgress means that the task runs.
	TaskStateInProgress TaskState = "InProgress"
	// TaskStateSucceeded means that the task ended well.
	TaskStateSucceeded TaskState = "Succeeded"
	// TaskStateFailed means that the task failed.
	TaskStateFailed TaskState = "Failed"
	// TaskStateRejected means that the task never ran, since it was not allowed to.
	TaskStateRejected TaskState = "Rejected"
)
