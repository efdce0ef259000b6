// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ShouldEmitEvent is true if the change from before to now requires an event. Nil: the condition did not exist before. A new
// condition requires an event only if it is abnormal. A change of the status always requires one. For ClusterIDMismatch only a
// change from or to abnormal does, because its status also changes when members start and stop.
func ShouldEmitEvent(before, now *druidv1alpha1.Condition) bool {
	switch {
	case before == nil:
		return IsAbnormal(now)
	case now.Type == druidv1alpha1.ConditionTypeClusterIDMismatch:
		return IsAbnormal(before) != IsAbnormal(now)
	default:
		return before.Status != now.Status
	}
}

// IsAbnormal is true for a condition that reports a problem.
func IsAbnormal(condition *druidv1alpha1.Condition) bool {
	if condition.Type == druidv1alpha1.ConditionTypeClusterIDMismatch {
		return condition.Status == druidv1alpha1.ConditionTrue
	}

	return condition.Status == druidv1alpha1.ConditionFalse && condition.Type != druidv1alpha1.ConditionTypeBootstrappedWithExistingCluster &&
		condition.Type != druidv1alpha1.ConditionTypeScaleOperationComplete
}
