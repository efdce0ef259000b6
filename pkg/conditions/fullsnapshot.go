// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/schedule"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// FullSnapshot is the part of the condition BackupReady about full snapshots. It is True if one was taken after the schedule was last due, or if
// there was no new revision at that time. A due snapshot may take as long as its time limit, so that the condition does not change around each snapshot.
// A snapshot from before the Lease was recreated does not count. It is False if no member has the revision of the newest snapshot.
// It is also False if far more snapshots are taken than the schedule requests. A backup store must be configured.
func FullSnapshot(in Input) *druidv1alpha1.Condition {
	if missing := in.withoutLease(druidv1alpha1.ReasonFullSnapshotOverdue, in.Observation.FullSnapshotLease); missing != nil {
		return missing
	}
	lease, waits, newest := in.Observation.FullSnapshotLease, "Waiting for the first full snapshot", newestSnapshot(in.Observation.FullSnapshotLease)
	if in.Observation.RecordsEarlierSnapshot(lease) {
		lease.Holder, lease.RenewTime = "", time.Time{}
		waits, newest = fmt.Sprintf("%s since Lease %s was recreated", waits, lease.Name), fmt.Sprintf("none was taken since Lease %s was recreated", lease.Name)
	}
	due, fired, err := schedule.Last(helper.FullSnapshotSchedule(in.Etcd), in.Now.Add(-in.fullSnapshotGrace()))
	if err != nil {
		return backupPart(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, "spec.backup.fullSnapshotSchedule: "+err.Error())
	}
	if recorded := in.recordedFull(lease, due, fired); recorded != nil {
		if recorded.Status == druidv1alpha1.ConditionTrue && !in.ExcessSince.IsZero() {
			return backupPart(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonTooManySnapshots,
				fmt.Sprintf("The sidecar takes far more full snapshots than the schedule %q requests, observed at %s: read its log", helper.FullSnapshotSchedule(in.Etcd), stamp(in.ExcessSince)))
		}

		return recorded
	}
	switch {
	case in.isStarting():
		return backupPart(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot,
			"Waiting for the first full snapshot of "+in.firstSnapshotOf()+"; "+newest)
	case lease.RenewTime.IsZero() && (!fired || !lease.CreationTime.Before(due)):
		return backupPart(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot, waits)
	default:
		return backupPart(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonFullSnapshotOverdue,
			fmt.Sprintf("A full snapshot was due at %s; %s%s%s", stamp(due), newest, in.lostRevision(lease), in.nextFull(due)))
	}
}

// recordedFull returns the condition if the recorded full snapshot is enough, or if no member has its revision. Nil: there is none, or
// another one was due. fired is false if none was ever due.
func (in Input) recordedFull(lease etcdcluster.Lease, due time.Time, fired bool) *druidv1alpha1.Condition {
	if lease.RenewTime.IsZero() {
		return nil
	}
	isInTime := !fired || !lease.RenewTime.Before(due)
	switch {
	case isInTime && in.isAhead(lease) && in.Now.Sub(lease.RenewTime) >= evidence.MaxClockSkew: // else the members may have been read before
		return backupPart(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonLostRevisionInStore,
			in.observedFull(lease)+in.lostRevision(lease)+"; follow the runbook of alert EtcdRevisionRolledBack")
	case isInTime:
		return backupPart(druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonBackupSucceeded,
			in.observedFull(lease)+in.nextFull(lease.RenewTime))
	case in.isUnchangedSince(lease):
		return nothingToSnapshot(nothingChanged(lease))
	case in.wasUnchangedAt(lease, due) && !in.isAhead(lease):
		return nothingToSnapshot(nothingHadChanged(due))
	default:
		return nil
	}
}

// fullSnapshotGrace returns the longest time that a due full snapshot may take.
func (in Input) fullSnapshotGrace() time.Duration {
	return helper.SnapshotTimeout(in.Etcd) + time.Minute
}

// withoutLease returns the condition of a snapshot whose Lease cannot be read, does not exist, or records snapshots of another
// store. Snapshots from before a change of the endpoint do not count either. overdue is the reason if none is recorded in time. Nil: the Lease is
// valid.
func (in Input) withoutLease(overdue string, lease etcdcluster.Lease) *druidv1alpha1.Condition {
	if failure := in.Observation.Failure(etcdcluster.SectionLeases); failure != "" {
		return backupPart(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToFetchLease, failure)
	}
	if !lease.Exists {
		return backupPart(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot,
			"The Lease in which the sidecar records its snapshots does not exist yet")
	}
	if in.Observation.IsElsewhere(lease) {
		return in.withSnapshotsElsewhere(overdue, lease)
	}
	if store := in.Observation.State.Store; store != nil && store.AwaitsSnapshot() && !lease.RenewTime.IsZero() {
		return in.awaitingSnapshot(overdue, *store)
	}

	return nil
}

// withSnapshotsElsewhere returns the condition of a snapshot that is recorded in another store. No object has the time of a change of the
// container. Therefore the message contains when it was first observed.
func (in Input) withSnapshotsElsewhere(reason string, lease etcdcluster.Lease) *druidv1alpha1.Condition {
	location := in.Observation.StoreLocation
	waiting := fmt.Sprintf("Waiting for all members to use %s; the recorded snapshots are in %s; observed since ", location, lease.Store)
	overdue := fmt.Sprintf("No snapshot was recorded in %s within %s; the recorded snapshots are in %s", location, in.storeChangePeriod(), lease.Store)
	since := timeAfter(in.reportedBackup(), waiting)
	if since.IsZero() {
		since = in.Now
	}
	if in.Now.Sub(since) <= in.storeChangePeriod() && !strings.Contains(in.reportedBackup(), overdue) {
		return backupPart(druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot, waiting+stamp(since))
	}
	var others []string
	for _, pod := range in.Observation.Pods {
		if pod.Store != in.Observation.StatefulSet.Store {
			others = append(others, pod.Name)
		}
	}
	if len(others) > 0 {
		overdue += "; these pods have another store than the StatefulSet: " + strings.Join(others, ", ")
	}

	return backupPart(druidv1alpha1.ConditionFalse, reason, overdue)
}

// awaitingSnapshot returns the condition of a snapshot while none was recorded since the endpoint or the account of the store changed. A new pod
// may still take its first one. Without pods there is nothing to be stored.
func (in Input) awaitingSnapshot(overdue string, store state.Store) *druidv1alpha1.Condition {
	status, reason, start := druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot, "Waiting for a full snapshot"
	until := latest(store.ChangedAt.Add(in.storeChangePeriod()), in.newestPod().Add(in.fullSnapshotGrace()))
	if isStopped := len(in.Observation.Pods) == 0 && helper.ManagesPods(in.Etcd); !isStopped && in.Now.After(until) {
		status, reason, start = druidv1alpha1.ConditionFalse, overdue, "No full snapshot was recorded"
	}
	message := fmt.Sprintf("%s in %s since its endpoint or account changed at %s; earlier snapshots may lack writes", start, store, stamp(store.ChangedAt))
	if pods := etcdcluster.PodsWithFormerEndpoint(&store, in.Observation.Pods); len(pods) > 0 {
		message += "; delete these pods one at a time while all members are healthy, because their sidecars read the endpoint of the store only when they start: " + strings.Join(pods, ", ")
	}

	return backupPart(status, reason, message)
}

// storeChangePeriod is the time after which a full snapshot is in a changed store.
func (in Input) storeChangePeriod() time.Duration {
	return etcdcluster.CredentialsPeriod + in.fullSnapshotGrace()
}

// isUnchangedSince is true if the snapshot has the latest revision of all reachable members. The sidecar takes no other full
// snapshot before a new revision exists. A higher revision than that of the members says nothing: they have lost data.
func (in Input) isUnchangedSince(lease etcdcluster.Lease) bool {
	revision, err := strconv.ParseInt(lease.Holder, 10, 64)
	if err != nil || in.isAhead(lease) {
		return false
	}
	reachable := false
	for _, member := range in.Observation.Etcd.Members {
		if member.Revision > revision {
			return false
		}
		reachable = reachable || member.Reachable
	}

	return reachable
}

// isAhead is true if the snapshot has a higher revision than all healthy members. The cluster was rolled back, and the snapshot has other data.
func (in Input) isAhead(lease etcdcluster.Lease) bool {
	revision, err := strconv.ParseInt(lease.Holder, 10, 64)
	highest := int64(0)
	for _, member := range in.Observation.Etcd.Members {
		if member.Healthy {
			highest = max(highest, member.Revision, member.QuorumRevision)
		}
	}

	return err == nil && 0 < highest && highest < revision
}

// lostRevision says that no member has the revision of the snapshot. Empty: a member has it, or may have it.
func (in Input) lostRevision(lease etcdcluster.Lease) string {
	if !in.isAhead(lease) {
		return ""
	}

	return fmt.Sprintf(", and has revision %s, which no member has", lease.Holder)
}

// newestFull returns the time of the newest full snapshot, as the start of a message.
func newestFull(lease etcdcluster.Lease) string {
	return "The newest full snapshot is of " + stamp(lease.RenewTime)
}

const observedAt = ", observed at "

// observedFull is newestFull with the time at which the operator first observed the snapshot.
func (in Input) observedFull(lease etcdcluster.Lease) string {
	observed := in.fullSnapshotObserved()
	if observed.IsZero() {
		observed = in.Now
	}

	return newestFull(lease) + observedAt + stamp(observed)
}

// nextFull returns the time at which the first full snapshot after the given time is due, as the end of a message. Callers pass
// the time of the last snapshot, so that the message changes only with a new snapshot. Empty: no snapshot is due.
func (in Input) nextFull(after time.Time) string {
	next := schedule.Next(helper.FullSnapshotSchedule(in.Etcd), after)
	if next.IsZero() {
		return ""
	}

	return "; the next is due at " + stamp(next)
}

// nothingChanged returns the message of an idle cluster. It stays the same while the cluster is idle.
func nothingChanged(lease etcdcluster.Lease) string {
	return "Nothing has changed since the newest full snapshot, of " + stamp(lease.RenewTime) + "; the next is taken as scheduled when something has"
}

const nothingHadChangedPrefix = "Nothing had changed when a full snapshot was due at "

// nothingHadChanged returns the message after a change that followed a due full snapshot, until the next one is due.
func nothingHadChanged(due time.Time) string {
	return nothingHadChangedPrefix + stamp(due) + "; delta snapshots hold what has changed since"
}

func nothingToSnapshot(message string) *druidv1alpha1.Condition {
	return backupPart(druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonBackupSucceeded, message)
}

// wasUnchangedAt is true if the previous message reported that no full snapshot was needed when it was due. The sidecar then
// takes none before the next one is due. Only the previous message has that information.
func (in Input) wasUnchangedAt(lease etcdcluster.Lease, due time.Time) bool {
	before := in.reportedBackup()

	return strings.HasPrefix(before, nothingChanged(lease)) || strings.HasPrefix(before, nothingHadChanged(due))
}

// isStarting is true while no pod exists, and while a new pod may still restore or take its first full snapshot. It is false
// after a snapshot was recorded. The age of the pod counts, because a sidecar with a broken store restarts repeatedly.
func (in Input) isStarting() bool {
	if len(in.Observation.Pods) == 0 {
		return helper.ManagesPods(in.Etcd)
	}
	created := in.newestPod()
	if latest(in.Observation.FullSnapshotLease.RenewTime, in.Observation.DeltaSnapshotLease.RenewTime).After(created) {
		return false
	}

	return in.Now.Sub(created) <= in.fullSnapshotGrace()
}

// firstSnapshotOf returns the pod whose first snapshot is awaited.
func (in Input) firstSnapshotOf() string {
	if len(in.Observation.Pods) == 0 {
		return "a pod that is yet to be created"
	}

	return "the pod that was created at " + stamp(in.newestPod())
}

// newestPod returns the creation time of the newest pod. Zero: there is none.
func (in Input) newestPod() time.Time {
	var created time.Time
	for _, pod := range in.Observation.Pods {
		created = latest(created, pod.CreationTime)
	}

	return created
}

func newestSnapshot(lease etcdcluster.Lease) string {
	if lease.RenewTime.IsZero() {
		return "none was ever taken"
	}

	return "the newest is of " + stamp(lease.RenewTime)
}

func latest(times ...time.Time) time.Time {
	var newest time.Time
	for _, t := range times {
		if t.After(newest) {
			newest = t
		}
	}

	return newest
}
