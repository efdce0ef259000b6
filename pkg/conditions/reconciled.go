// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Reconciled returns the condition Reconciled. It is True if the cluster is as the spec describes it, with the reason Reconciled. Otherwise it is
// False, and reason and message contain the current action and what it waits for, or why nothing is done. The etcd controller writes it.
func Reconciled(reason, message string) *druidv1alpha1.Condition {
	status := druidv1alpha1.ConditionFalse
	if reason == druidv1alpha1.ReasonReconciled {
		status = druidv1alpha1.ConditionTrue
	}

	return condition(druidv1alpha1.ConditionTypeReconciled, status, reason, message)
}
