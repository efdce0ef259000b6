// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"slices"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ShouldEmitEvent is true if the change from before to now requires an event. Nil: the condition did not exist before. A new
// condition requires an event only if it is abnormal. Any other change of the status requires one, except for the types in normalAtFirst. For
// these, only a change from or to abnormal does.
func ShouldEmitEvent(before, now *druidv1alpha1.Condition) bool {
	switch {
	case before == nil:
		return IsAbnormal(now)
	case slices.Contains(normalAtFirst, now.Type):
		return IsAbnormal(before) != IsAbnormal(now)
	default:
		return before.Status != now.Status
	}
}

// normalAtFirst are the types that change from Unknown to a normal status for every new Etcd, or when members start and stop.
var normalAtFirst = []druidv1alpha1.ConditionType{
	druidv1alpha1.ConditionTypeAllMembersUpdated, druidv1alpha1.ConditionTypeBackupReady, druidv1alpha1.ConditionTypeClusterIDMismatch,
	druidv1alpha1.ConditionTypeDataVolumesReady,
}

// IsAbnormal is true for a condition that reports a problem.
func IsAbnormal(condition *druidv1alpha1.Condition) bool {
	if condition.Type == druidv1alpha1.ConditionTypeClusterIDMismatch {
		return condition.Status == druidv1alpha1.ConditionTrue
	}

	return condition.Status == druidv1alpha1.ConditionFalse && condition.Type != druidv1alpha1.ConditionTypeBootstrappedWithExistingCluster &&
		condition.Type != druidv1alpha1.ConditionTypeScaleOperationComplete && (condition.Type != druidv1alpha1.ConditionTypeReady || condition.Reason != druidv1alpha1.ReasonCreating)
}
