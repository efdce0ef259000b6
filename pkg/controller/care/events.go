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

// tell writes an event for each condition of ours whose status changed. A condition that appears is worth one only when it
// is bad.
func (r *Reconciler) tell(before, after *druidv1alpha1.Etcd) {
	types := conditions.CareTypes()
	slices.Sort(types)
	for _, conditionType := range types {
		now := conditions.Find(after.Status.Conditions, conditionType)
		if now == nil {
			continue
		}
		earlier := conditions.Find(before.Status.Conditions, conditionType)
		if earlier != nil && earlier.Status == now.Status || earlier == nil && !isBad(now) {
			continue
		}
		eventType := corev1.EventTypeNormal
		if isBad(now) {
			eventType = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(after, nil, eventType, now.Reason, actionCare, "Condition %s is %s: %s", now.Type, now.Status, now.Message)
	}
}

// isBad is true for a condition that somebody should look at.
func isBad(condition *druidv1alpha1.Condition) bool {
	if condition.Type == druidv1alpha1.ConditionTypeClusterIDMismatch {
		return condition.Status == druidv1alpha1.ConditionTrue
	}

	return condition.Status == druidv1alpha1.ConditionFalse && condition.Type != druidv1alpha1.ConditionTypeBootstrappedWithExistingCluster
}
