// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ShouldEmitEvent is true when somebody should hear that a condition became what it is now. Nil: there was none before. A
// condition that appears is worth telling only when it is bad, and one that changes always, but for the cluster ids of members
// that start and stop.
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

// IsAbnormal is true for a condition that somebody should look at.
func IsAbnormal(condition *druidv1alpha1.Condition) bool {
	if condition.Type == druidv1alpha1.ConditionTypeClusterIDMismatch {
		return condition.Status == druidv1alpha1.ConditionTrue
	}

	return condition.Status == druidv1alpha1.ConditionFalse && condition.Type != druidv1alpha1.ConditionTypeBootstrappedWithExistingCluster
}
