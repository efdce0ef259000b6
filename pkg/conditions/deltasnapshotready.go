// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// deltaSlack is what a delta snapshot may take beside its period.
const deltaSlack = 15 * time.Second

// DeltaSnapshotReady is True when the sidecar recorded a delta snapshot within two periods, False when not even within
// three, and Unknown in between or while a new pod may still restore. While a full snapshot is taken there are no delta
// snapshots, which is not held against them. Nil: no store is configured.
func DeltaSnapshotReady(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeDeltaSnapshotReady
	if !helper.IsStoreConfigured(in.Etcd) {
		return nil
	}
	period := helper.DeltaSnapshotPeriod(in.Etcd)
	if period < time.Second {
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonDeltaSnapshotsDisabled, "spec.backup.deltaSnapshotPeriod asks for no delta snapshots")
	}
	if missing := in.withoutLease(conditionType, in.Observation.DeltaSnapshotLease); missing != nil {
		return missing
	}
	lease := in.Observation.DeltaSnapshotLease
	since := latest(lease.RenewTime, lease.CreationTime, in.Observation.FullSnapshotLease.RenewTime)
	switch {
	case !lease.RenewTime.IsZero() && in.isWithin(lease.RenewTime, 2*period+deltaSlack):
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSnapshotUpToDate, "The newest delta snapshot is as new as its period demands")
	case lease.RenewTime.IsZero() && (in.isStarting() || in.isWithin(since, 3*period+deltaSlack)):
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot, "Waiting for the first delta snapshot")
	case in.isStarting() || in.isWithin(since, 3*period+deltaSlack):
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, "A delta snapshot is late: "+newest(lease))
	default:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSnapshotOverdue,
			fmt.Sprintf("A delta snapshot is due every %s; %s", period, newest(lease)))
	}
}

// isWithin is true when the time is not longer ago than the limit, not counting the time that a full snapshot that was due
// may take. When it ended is not known, since its lease holds the time at which it began: a snapshot that was recorded counts as
// one that took all the time it may.
func (in Input) isWithin(t time.Time, limit time.Duration) bool {
	if in.Now.Sub(t) <= limit {
		return true
	}
	due, fired, err := lastFiring(helper.FullSnapshotSchedule(in.Etcd), in.Now)

	if err != nil || !fired || due.Sub(t) > limit {
		return false
	}
	busy := in.fullSnapshotGrace()
	if !in.Observation.FullSnapshotLease.RenewTime.Before(due) {
		busy += limit
	}

	return in.Now.Sub(due) <= busy
}
