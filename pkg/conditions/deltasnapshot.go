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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/schedule"
)

// deltaSlack is the time that a delta snapshot may take in addition to its period.
const deltaSlack = 15 * time.Second

// deltaMessagePeriod is the shortest time between two changes of the message about the latest delta snapshot.
const deltaMessagePeriod = 5 * time.Minute

// DeltaSnapshot is the part of the condition BackupReady about delta snapshots. It is True if the sidecar recorded one within two periods, and False
// if it recorded none within three. It is Unknown in between, and while a new pod may still restore. The periods start at the end of a full snapshot,
// because the sidecar takes no delta snapshots during a full one. It is also False if the store has revisions that were lost. A backup store must be
// configured.
func DeltaSnapshot(in Input) *druidv1alpha1.Condition {
	period := helper.DeltaSnapshotPeriod(in.Etcd)
	if !helper.TakesDeltaSnapshots(in.Etcd) {
		return backupPart(druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonBackupSucceeded, "spec.backup.deltaSnapshotPeriod disables delta snapshots")
	}
	if missing := in.withoutLease(druidv1alpha1.ReasonDeltaSnapshotOverdue, in.Observation.DeltaSnapshotLease); missing != nil {
		return missing
	}
	lease := in.Observation.DeltaSnapshotLease
	if lost := in.lostRevisionInStore(lease); lost != "" {
		return backupPart(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonLostRevisionInStore, lost)
	}
	since := latest(lease.RenewTime, lease.CreationTime)
	switch {
	case in.hasSnapshot(lease) && in.isWithin(lease.RenewTime, 2*period+deltaSlack):
		return backupPart(druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonBackupSucceeded, in.deltaMessage(lease, period))
	case lease.RenewTime.IsZero() && (in.isStarting() || in.isWithin(since, 3*period+deltaSlack)):
		return backupPart(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot, "Waiting for the first delta snapshot")
	case in.isStarting() || in.isWithin(since, 3*period+deltaSlack):
		return backupPart(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, "A delta snapshot is late: "+newestSnapshot(lease)+nextDelta(lease, period))
	default:
		return backupPart(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonDeltaSnapshotOverdue,
			fmt.Sprintf("A delta snapshot is due every %s; %s%s", period, newestSnapshot(lease), nextDelta(lease, period)))
	}
}

// hasSnapshot is true if a delta snapshot was recorded, or a full one, which contains all writes before it.
func (in Input) hasSnapshot(delta etcdcluster.Lease) bool {
	full := in.Observation.FullSnapshotLease

	return !delta.RenewTime.IsZero() || !full.RenewTime.IsZero() && !in.Observation.RecordsEarlierSnapshot(full)
}

// DeltaSnapshotLateAt returns when the condition BackupReady changes at the earliest if the sidecar records no other delta snapshot. Zero: it does not change.
func DeltaSnapshotLateAt(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) time.Time {
	lease, period := o.DeltaSnapshotLease, helper.DeltaSnapshotPeriod(etcd)
	switch {
	case !helper.IsStoreConfigured(etcd) || !helper.TakesDeltaSnapshots(etcd):
		return time.Time{}
	case lease.RenewTime.IsZero() && o.FullSnapshotLease.RenewTime.IsZero():
		return lease.CreationTime.Add(3*period + deltaSlack)
	case lease.RenewTime.IsZero():
		return o.FullSnapshotLease.RenewTime.Add(2*period + deltaSlack)
	default:
		return lease.RenewTime.Add(2*period + deltaSlack)
	}
}

// lostRevisionInStore returns that the store still has snapshots with the revisions that were lost in a rollback which a user has accepted. The
// sidecar has written that revision into a Lease that was empty. Empty: the store may not have such snapshots.
func (in Input) lostRevisionInStore(lease etcdcluster.Lease) string {
	recorded := in.Observation.State.Evidence
	isAccepted := recorded != nil && recorded.AcceptedRevision > 0 && recorded.RolledBack == nil
	if !isAccepted || evidence.IsFromBeforeRollback(recorded, lease) || !in.isAhead(lease) {
		return ""
	}
	message := fmt.Sprintf("The store has snapshots up to revision %s, which no member has. A restore would use them, and would lose all writes since the rollback. "+
		"Move the snapshots with the lost revisions out of the store, and delete Lease %s", lease.Holder, lease.Name)
	isRecent := in.Now.Sub(lease.RenewTime) < evidence.MaxClockSkew // the members may have been read before
	if isRecent && !strings.Contains(in.reportedBackup(), message) {
		return ""
	}

	return message
}

// deltaMessage returns a message with the latest delta snapshot and the time of the next. The sidecar renews the Lease also
// without new revisions. The message changes only with a new revision, and at most once in deltaMessagePeriod, because each
// change is a write.
func (in Input) deltaMessage(lease etcdcluster.Lease, period time.Duration) string {
	if lease.RenewTime.IsZero() {
		return "The first delta snapshot is due at " + stamp(in.Observation.FullSnapshotLease.RenewTime.Add(period)) + " if something is written until then"
	}
	if lease.Holder == "" || lease.Holder == "0" {
		return "Nothing was written that the full snapshot does not hold, so that no delta snapshot was needed yet"
	}
	const begin, recorded = "The newest delta snapshot, up to revision ", ", was recorded at "
	newest := begin + lease.Holder + recorded
	if _, rest, found := strings.Cut(in.reportedBackup(), begin); found { // it ends the message
		before := begin + rest
		if strings.HasPrefix(before, newest) || in.Now.Sub(timeAfter(before, recorded)) < deltaMessagePeriod {
			return before
		}
	}

	return newest + stamp(lease.RenewTime) + nextDelta(lease, period) + " if something is written until then"
}

// nextDelta returns the time at which the next delta snapshot is due, as the end of a message. Empty: there is no previous one.
func nextDelta(lease etcdcluster.Lease, period time.Duration) string {
	if lease.RenewTime.IsZero() {
		return ""
	}

	return "; the next is due at " + stamp(lease.RenewTime.Add(period))
}

// isWithin is true if the last delta snapshot, or the end of a later full snapshot, is not older than the limit. The sidecar
// takes no delta snapshots during a full snapshot. A full snapshot that is due and not recorded counts as in progress for
// fullSnapshotAllowance.
func (in Input) isWithin(delta time.Time, limit time.Duration) bool {
	last := latest(delta, in.fullSnapshotEnd())
	if in.Now.Sub(last) <= limit {
		return true
	}
	due, fired, err := schedule.Last(helper.FullSnapshotSchedule(in.Etcd), in.Now)
	isRecorded := err != nil || !fired || !in.Observation.FullSnapshotLease.RenewTime.Before(due)

	return !isRecorded && due.Sub(last) <= limit && in.Now.Sub(due) <= in.fullSnapshotAllowance()
}

// fullSnapshotEnd returns the latest possible end of the newest full snapshot. Zero: a delta snapshot followed it. The Lease
// has the time of its start, but the sidecar writes the Lease at the end. Therefore the snapshot has ended when the operator
// first observes it.
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

// fullSnapshotAllowance returns the time for which a due full snapshot may delay delta snapshots: twice the duration of the
// newest full snapshot plus a minute. If that duration is unknown, it returns the time limit of a full snapshot.
func (in Input) fullSnapshotAllowance() time.Duration {
	observed := in.fullSnapshotObserved()
	if observed.IsZero() {
		return in.fullSnapshotGrace()
	}
	took := observed.Sub(in.Observation.FullSnapshotLease.RenewTime)

	return min(2*max(took, 0)+time.Minute, in.fullSnapshotGrace())
}

// wasFullSnapshotReported is true if the condition BackupReady reported the newest full snapshot, and now reports that the
// next one was not taken. The time of the first observation is then unknown. It was before the next snapshot was due.
func (in Input) wasFullSnapshotReported() bool {
	before := in.reportedBackup()
	began := in.Observation.FullSnapshotLease.RenewTime
	isLater := strings.HasPrefix(before, nothingHadChangedPrefix) && in.Now.Sub(began) > in.fullSnapshotGrace()

	return isLater || strings.Contains(before, " of "+stamp(began))
}

// fullSnapshotObserved returns the time at which the operator first observed the newest full snapshot, according to the
// condition BackupReady. Zero: the condition does not report that.
func (in Input) fullSnapshotObserved() time.Time {
	return timeAfter(in.reportedBackup(), newestFull(in.Observation.FullSnapshotLease)+observedAt)
}
