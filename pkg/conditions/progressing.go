// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ProgressingFor is the condition that says what is done now and what it waits for. It belongs to the etcd controller, whose
// outcome it tells: True while something is done or waited for, else False.
func ProgressingFor(status druidv1alpha1.ConditionStatus, reason, message string) *druidv1alpha1.Condition {
	return condition(druidv1alpha1.ConditionTypeProgressing, status, reason, message)
}
