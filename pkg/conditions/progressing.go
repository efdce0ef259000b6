// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ProgressingFor returns the condition Progressing, which reports the current action and what it waits for. It is True while an
// action is in progress or waits, and False otherwise. The etcd controller writes it.
func ProgressingFor(status druidv1alpha1.ConditionStatus, reason, message string) *druidv1alpha1.Condition {
	return condition(druidv1alpha1.ConditionTypeProgressing, status, reason, message)
}
