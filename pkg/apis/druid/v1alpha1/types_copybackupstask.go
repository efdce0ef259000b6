// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 56 || oldSelf.hasValue()",optionalOldSelf=true,message="metadata.name must have at most 56 characters: the name of the Job is longer, and has at most 63"

// EtcdCopyBackupsTask copies snapshots from one store to another, once. Its name has at most 56 characters, because that of its Job is longer.
type EtcdCopyBackupsTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what to copy.
	Spec EtcdCopyBackupsTaskSpec `json:"spec,omitempty"`
	// Status says how far the copy came. Only the operator writes it.
	Status EtcdCopyBackupsTaskStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// EtcdCopyBackupsTaskList is a list of EtcdCopyBackupsTasks.
type EtcdCopyBackupsTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCopyBackupsTask `json:"items"`
}

// EtcdCopyBackupsTaskSpec says what to copy.
type EtcdCopyBackupsTaskSpec struct {
	// PodLabels are set on the pods of the copy, below the operator's own labels, which win.
	// +optional
	PodLabels map[string]string `json:"podLabels,omitempty"`
	// SourceStore is the store to copy from.
	SourceStore StoreSpec `json:"sourceStore"`
	// TargetStore is the store to copy to.
	TargetStore StoreSpec `json:"targetStore"`
	// MaxBackupAge is the greatest age, in days, of a snapshot that is copied. Unset: no limit.
	// It must be between 0 and 2147483647.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MaxBackupAge *uint32 `json:"maxBackupAge,omitempty"`
	// MaxBackups is the greatest number of snapshots that are copied, the newest first. Unset: no limit.
	// It must be between 0 and 2147483647.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MaxBackups *uint32 `json:"maxBackups,omitempty"`
	// WaitForFinalSnapshot delays the copy until the source holds a final full snapshot. Unset: no delay.
	// +optional
	WaitForFinalSnapshot *WaitForFinalSnapshotSpec `json:"waitForFinalSnapshot,omitempty"`
}

// WaitForFinalSnapshotSpec delays a copy until the source holds a final full snapshot.
type WaitForFinalSnapshotSpec struct {
	// Enabled turns the delay on.
	Enabled bool `json:"enabled"`
	// Timeout is how long to wait before copying anyway. Unset or 0: for ever.
	// At most 8760h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('8760h')",message="must be at most 8760h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Types of the conditions of an EtcdCopyBackupsTask.
const (
	// EtcdCopyBackupsTaskSucceeded is True when the copy ended well.
	EtcdCopyBackupsTaskSucceeded ConditionType = "Succeeded"
	// EtcdCopyBackupsTaskFailed is True when the copy failed for good.
	EtcdCopyBackupsTaskFailed ConditionType = "Failed"
	// EtcdCopyBackupsTaskProgressing is True while the copy runs or waits. Its message contains the current attempt.
	EtcdCopyBackupsTaskProgressing ConditionType = "Progressing"
)

// EtcdCopyBackupsTaskStatus says how far a copy came.
type EtcdCopyBackupsTaskStatus struct {
	// Conditions are statements about the copy.
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +optional
	Conditions []Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// ObservedGeneration is the newest generation of the spec that the operator acted on.
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	// LastError is the last error that the operator met. Unset: none.
	// +optional
	LastError *string `json:"lastError,omitempty"`
}
