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
// three, and Unknown in between or while a new pod may still restore. The periods begin again with the end of a full snapshot,
// since the sidecar takes no delta snapshots meanwhile. Nil: no store is configured.
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
	since := latest(lease.RenewTime, lease.CreationTime)
	switch {
	case !lease.RenewTime.IsZero() && in.isWithin(lease.RenewTime, 2*period+deltaSlack):
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSnapshotUpToDate, in.deltaMessage(lease, period))
	case lease.RenewTime.IsZero() && (in.isStarting() || in.isWithin(since, 3*period+deltaSlack)):
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot, "Waiting for the first delta snapshot")
	case in.isStarting() || in.isWithin(since, 3*period+deltaSlack):
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, "A delta snapshot is late: "+newestSnapshot(lease)+nextDelta(lease, period))
	default:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSnapshotOverdue,
			fmt.Sprintf("A delta snapshot is due every %s; %s%s", period, newestSnapshot(lease), nextDelta(lease, period)))
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

// isWithin is true when a delta snapshot, or the end of the full snapshot after it, is not longer ago than the limit. While the sidecar
// takes a full snapshot it takes no delta snapshots: one that is due and not recorded yet counts as under way for a while.
func (in Input) isWithin(delta time.Time, limit time.Duration) bool {
	last := latest(delta, in.fullSnapshotEnd())
	if in.Now.Sub(last) <= limit {
		return true
	}
	due, fired, err := lastFiring(helper.FullSnapshotSchedule(in.Etcd), in.Now)
	isRecorded := err != nil || !fired || !in.Observation.FullSnapshotLease.RenewTime.Before(due)

	return !isRecorded && due.Sub(last) <= limit && in.Now.Sub(due) <= in.fullSnapshotAllowance()
}

// fullSnapshotEnd is the latest time at which the newest full snapshot can have ended; zero when a delta snapshot followed it. Its Lease
// has the time at which it began, but the sidecar writes it at the end: so it has ended when the operator first observes it.
func (in Input) fullSnapshotEnd() time.Time {
	began := in.Observation.FullSnapshotLease.RenewTime
	if began.IsZero() || !in.Observation.DeltaSnapshotLease.RenewTime.Before(began) {
		return time.Time{}
	}
	end := in.Now
	if observed := in.fullSnapshotObserved(); !observed.IsZero() {
		end = observed
	} else if in.wasFullSnapshotReported() {
		end = began
	}
	if longest := began.Add(in.fullSnapshotGrace()); longest.Before(end) {
		return longest
	}

	return end
}

// fullSnapshotAllowance is how long a full snapshot that is due may keep the sidecar from taking delta snapshots: twice what the newest
// one took, and a minute. Where that is not known, as long as a full snapshot may take.
func (in Input) fullSnapshotAllowance() time.Duration {
	observed := in.fullSnapshotObserved()
	if observed.IsZero() {
		return in.fullSnapshotGrace()
	}
	took := observed.Sub(in.Observation.FullSnapshotLease.RenewTime)

	return min(2*max(took, 0)+time.Minute, in.fullSnapshotGrace())
}

// wasFullSnapshotReported is true when the condition FullSnapshotReady reported the newest full snapshot, and now reports that the one after
// it was not taken. When the newest one was first observed is not known any more; it was before that one was due.
func (in Input) wasFullSnapshotReported() bool {
	before := Find(in.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeFullSnapshotReady)
	if before == nil {
		return false
	}
	began := in.Observation.FullSnapshotLease.RenewTime
	isLater := strings.HasPrefix(before.Message, nothingHadChangedPrefix) && in.Now.Sub(began) > in.fullSnapshotGrace()

	return isLater || strings.Contains(before.Message, " of "+stamp(began))
}

// fullSnapshotObserved is when the operator first observed the newest full snapshot in its Lease, as the condition FullSnapshotReady
// records; zero when the condition does not name it as that.
func (in Input) fullSnapshotObserved() time.Time {
	before := Find(in.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeFullSnapshotReady)
	if before == nil || !strings.HasPrefix(before.Message, newestFull(in.Observation.FullSnapshotLease)) {
		return time.Time{}
	}

	return before.LastUpdateTime.Time
}
