// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// BackupReady is what FullSnapshotReady and DeltaSnapshotReady say together, for clients that know only this one. Nil: no
// store is configured.
func BackupReady(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeBackupReady
	full, delta := FullSnapshotReady(in), DeltaSnapshotReady(in)
	if full == nil || delta == nil {
		return nil
	}
	for _, part := range []*druidv1alpha1.Condition{full, delta} {
		if part.Status == druidv1alpha1.ConditionFalse {
			return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonBackupFailed, part.Message)
		}
	}
	for _, part := range []*druidv1alpha1.Condition{full, delta} {
		if part.Status == druidv1alpha1.ConditionUnknown {
			return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, part.Message)
		}
	}

	return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonBackupSucceeded, "The newest snapshots are as new as schedule and period demand")
}
