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

// actionCare is the action of the controller's events.
const actionCare = "CheckHealth"

// emitEvents emits an event for each condition of this controller whose change requires one.
func (r *Reconciler) emitEvents(before, after *druidv1alpha1.Etcd) {
	types := conditions.CareTypes()
	slices.Sort(types)
	for _, conditionType := range types {
		now := conditions.Find(after.Status.Conditions, conditionType)
		if now == nil || !conditions.ShouldEmitEvent(conditions.Find(before.Status.Conditions, conditionType), now) {
			continue
		}
		eventType := corev1.EventTypeNormal
		if conditions.IsAbnormal(now) {
			eventType = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(after, nil, eventType, now.Reason, actionCare, "Condition %s is %s: %s", now.Type, now.Status, now.Message)
	}
}
