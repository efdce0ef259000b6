// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

// actionCare is what the controller was doing when it wrote an event.
const actionCare = "CheckHealth"

// tell writes an event for each condition of ours whose change is worth one.
func (r *Reconciler) tell(before, after *druidv1alpha1.Etcd) {
	types := conditions.CareTypes()
	slices.Sort(types)
	for _, conditionType := range types {
		now := conditions.Find(after.Status.Conditions, conditionType)
		if now == nil || !IsWorthTelling(conditions.Find(before.Status.Conditions, conditionType), now) {
			continue
		}
		eventType := corev1.EventTypeNormal
		if isBad(now) {
			eventType = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(after, nil, eventType, now.Reason, actionCare, "Condition %s is %s: %s", now.Type, now.Status, now.Message)
	}
}

// IsWorthTelling is true when somebody should hear that a condition became what it is now. Nil: there was none before. A
// condition that appears is worth telling only when it is bad, and one that changes always, but for the cluster ids of members
// that start and stop.
func IsWorthTelling(before, now *druidv1alpha1.Condition) bool {
	switch {
	case before == nil:
		return isBad(now)
	case now.Type == druidv1alpha1.ConditionTypeClusterIDMismatch:
		return isBad(before) != isBad(now)
	default:
		return before.Status != now.Status
	}
}

// isBad is true for a condition that somebody should look at.
func isBad(condition *druidv1alpha1.Condition) bool {
	if condition.Type == druidv1alpha1.ConditionTypeClusterIDMismatch {
		return condition.Status == druidv1alpha1.ConditionTrue
	}

	return condition.Status == druidv1alpha1.ConditionFalse && condition.Type != druidv1alpha1.ConditionTypeBootstrappedWithExistingCluster
}
