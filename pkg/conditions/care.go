// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// builders maps the conditions of the care controller to the functions that compute them.
var builders = map[druidv1alpha1.ConditionType]func(Input) *druidv1alpha1.Condition{
	druidv1alpha1.ConditionTypeReady:                           Ready,
	druidv1alpha1.ConditionTypeAllMembersReady:                 AllMembersReady,
	druidv1alpha1.ConditionTypeBackupReady:                     BackupReady,
	druidv1alpha1.ConditionTypeDataVolumesReady:                DataVolumesReady,
	druidv1alpha1.ConditionTypeClusterIDMismatch:               ClusterIDMismatch,
	druidv1alpha1.ConditionTypeBootstrappedWithExistingCluster: BootstrappedWithExistingCluster,
	druidv1alpha1.ConditionTypeRevisionConfirmed:               RevisionConfirmed,
	druidv1alpha1.ConditionTypeDataConsistent:                  DataConsistent,
	druidv1alpha1.ConditionTypeDatabaseSpaceAvailable:          DatabaseSpaceAvailable,
	druidv1alpha1.ConditionTypeRestoreProven:                   RestoreProven,
	druidv1alpha1.ConditionTypeSecretsValid:                    SecretsValid,
}

// CareTypes returns the condition types that the care controller owns.
func CareTypes() []druidv1alpha1.ConditionType {
	var types []druidv1alpha1.ConditionType
	for conditionType := range builders {
		types = append(types, conditionType)
	}

	return types
}

// EtcdTypes returns the condition types that the etcd controller owns.
func EtcdTypes() []druidv1alpha1.ConditionType {
	return []druidv1alpha1.ConditionType{
		druidv1alpha1.ConditionTypeAllMembersUpdated,
		druidv1alpha1.ConditionTypeDefaultsUpdated,
		druidv1alpha1.ConditionTypeFinalSnapshotTaken,
		druidv1alpha1.ConditionTypeReconciled,
		druidv1alpha1.ConditionTypeQuorumRecoverable,
		druidv1alpha1.ConditionTypeScaleOperationComplete,
		druidv1alpha1.ConditionTypeStoreResolved,
	}
}

// ForCare sets the part of the status that the care controller owns: its conditions, the members, and the record of a joined
// cluster. It changes nothing else. While the cluster hibernates, each existing condition keeps its status and has the reason
// NotChecked.
func ForCare(in Input, status *druidv1alpha1.EtcdStatus) {
	var computed []druidv1alpha1.Condition
	for _, build := range builders {
		if condition := in.unlessHibernated(build(in)); condition != nil {
			computed = append(computed, *condition)
		}
	}
	status.Conditions = Merge(in.Etcd.Status.Conditions, CareTypes(), computed, in.Now)
	status.Members = Members(in)
	status.BootstrapWithExistingCluster = in.joinRecord(status.Conditions)
}

// ForEtcd merges the conditions that the etcd controller computed into the status. A nil condition is removed.
func ForEtcd(status *druidv1alpha1.EtcdStatus, now time.Time, computed ...*druidv1alpha1.Condition) {
	var present []druidv1alpha1.Condition
	for _, condition := range computed {
		if condition != nil {
			present = append(present, *condition)
		}
	}
	status.Conditions = Merge(status.Conditions, EtcdTypes(), present, now)
}

// unlessHibernated returns the computed condition. While the cluster hibernates no member can be observed, and it returns the previous status.
// RevisionConfirmed and RestoreProven follow from records that can change meanwhile. Nil: there is no condition, or there was none before the cluster
// hibernated.
func (in Input) unlessHibernated(computed *druidv1alpha1.Condition) *druidv1alpha1.Condition {
	if computed == nil || !in.isHibernated() || computed.Type == druidv1alpha1.ConditionTypeRevisionConfirmed || computed.Type == druidv1alpha1.ConditionTypeRestoreProven {
		return computed
	}
	before := Find(in.Etcd.Status.Conditions, computed.Type)
	if before == nil {
		return nil
	}

	return condition(computed.Type, before.Status, druidv1alpha1.ReasonNotChecked, "The cluster hibernates")
}

// joinRecord returns the existing record of the joined cluster, or a new one when the join is complete.
func (in Input) joinRecord(conditions []druidv1alpha1.Condition) *druidv1alpha1.BootstrapWithExistingClusterStatus {
	bootstrap := in.Etcd.Spec.Etcd.BootstrapWithExistingCluster
	condition := Find(conditions, druidv1alpha1.ConditionTypeBootstrappedWithExistingCluster)
	if before := in.Etcd.Status.BootstrapWithExistingCluster; before != nil || bootstrap == nil || in.isHibernated() ||
		condition == nil || condition.Status != druidv1alpha1.ConditionTrue {
		return before
	}
	record := &druidv1alpha1.BootstrapWithExistingClusterStatus{JoinedAt: metav1.NewTime(in.Now.Truncate(time.Second))}
	for _, member := range bootstrap.Members {
		record.Members = append(record.Members, druidv1alpha1.BootstrapJoinedMember(member))
	}

	return record
}
