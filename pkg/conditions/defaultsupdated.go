// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// DefaultsUpdated is the condition of an Etcd that waits for newer defaults of the operator, or whose members are not ready with them. The etcd
// controller writes it.
func DefaultsUpdated(reason, message string) *druidv1alpha1.Condition {
	status := druidv1alpha1.ConditionFalse
	if reason == druidv1alpha1.ReasonWaitingForCanary || reason == druidv1alpha1.ReasonWaitingForSlot {
		status = druidv1alpha1.ConditionProgressing // a rollout takes hours, and nothing is wrong
	}

	return condition(druidv1alpha1.ConditionTypeDefaultsUpdated, status, reason, message)
}
