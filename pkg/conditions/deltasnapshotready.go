// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// deltaSlack is what a delta snapshot may take beside its period.
const deltaSlack = 15 * time.Second

// deltaMessagePeriod is how long a message that names a delta snapshot is kept while there are newer ones.
const deltaMessagePeriod = 5 * time.Minute

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
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSnapshotUpToDate, in.deltaMessage(lease, period))
	case lease.RenewTime.IsZero() && (in.isStarting() || in.isWithin(since, 3*period+deltaSlack)):
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot, "Waiting for the first delta snapshot")
	case in.isStarting() || in.isWithin(since, 3*period+deltaSlack):
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, "A delta snapshot is late: "+newest(lease)+nextDelta(lease, period))
	default:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSnapshotOverdue,
			fmt.Sprintf("A delta snapshot is due every %s; %s%s", period, newest(lease), nextDelta(lease, period)))
	}
}

// deltaMessage names the last delta snapshot and the next. The sidecar renews the lease also when nothing was written: the
// message stays as it is then, and changes no more often than every few minutes where much is written, since each change is
// a write.
func (in Input) deltaMessage(lease etcdcluster.Lease, period time.Duration) string {
	if lease.Holder == "" || lease.Holder == "0" {
		return "Nothing was written that the full snapshot does not hold, so that no delta snapshot was needed yet"
	}
	newest := fmt.Sprintf("The newest delta snapshot, up to revision %s, was recorded at ", lease.Holder)
	if before := Find(in.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeDeltaSnapshotReady); before != nil && before.Reason == druidv1alpha1.ReasonSnapshotUpToDate {
		isRecent := in.Now.Sub(before.LastUpdateTime.Time) < deltaMessagePeriod && strings.HasPrefix(before.Message, "The newest delta snapshot, ")
		if isRecent || strings.HasPrefix(before.Message, newest) {
			return before.Message
		}
	}

	return newest + stamp(lease.RenewTime) + nextDelta(lease, period) + " if something is written until then"
}

// nextDelta says when the next delta snapshot is due, as the end of a message. Empty: there was none.
func nextDelta(lease etcdcluster.Lease, period time.Duration) string {
	if lease.RenewTime.IsZero() {
		return ""
	}

	return "; the next is due at " + stamp(lease.RenewTime.Add(period))
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
