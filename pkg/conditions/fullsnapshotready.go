// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// FullSnapshotReady is True if a full snapshot was taken after the schedule was last due, or if there was no new revision at
// that time. A due snapshot may take as long as its time limit, so that the condition does not change around each snapshot.
// Nil: no backup store is configured.
func FullSnapshotReady(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeFullSnapshotReady
	if !helper.IsStoreConfigured(in.Etcd) {
		return nil
	}
	if missing := in.withoutLease(conditionType, in.Observation.FullSnapshotLease); missing != nil {
		return missing
	}
	lease := in.Observation.FullSnapshotLease
	due, fired, err := lastFiring(helper.FullSnapshotSchedule(in.Etcd), in.Now.Add(-in.fullSnapshotGrace()))
	if err != nil {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnknown, "spec.backup.fullSnapshotSchedule: "+err.Error())
	}
	switch {
	case !lease.RenewTime.IsZero() && (!fired || !lease.RenewTime.Before(due)):
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSnapshotUpToDate,
			newestFull(lease)+in.nextFull(lease.RenewTime))
	case !lease.RenewTime.IsZero() && in.isUnchangedSince(lease):
		return nothingToSnapshot(nothingChanged(lease))
	case !lease.RenewTime.IsZero() && in.wasUnchangedAt(lease, due):
		return nothingToSnapshot(nothingHadChanged(due))
	case in.isStarting():
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot,
			"Waiting for the first full snapshot of "+in.firstSnapshotOf()+"; "+newestSnapshot(lease))
	case lease.RenewTime.IsZero() && (!fired || !lease.CreationTime.Before(due)):
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot, "Waiting for the first full snapshot")
	default:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSnapshotOverdue,
			fmt.Sprintf("A full snapshot was due at %s; %s%s", stamp(due), newestSnapshot(lease), in.nextFull(due)))
	}
}

// fullSnapshotGrace returns the longest time that a due full snapshot may take.
func (in Input) fullSnapshotGrace() time.Duration {
	return helper.SnapshotTimeout(in.Etcd) + time.Minute
}

// withoutLease returns the condition of a snapshot whose Lease cannot be read, does not exist, or records snapshots of another
// store. Nil: the Lease is valid.
func (in Input) withoutLease(conditionType druidv1alpha1.ConditionType, lease etcdcluster.Lease) *druidv1alpha1.Condition {
	if failure := in.Observation.Failure(etcdcluster.SectionLeases); failure != "" {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToFetchLease, failure)
	}
	if !lease.Exists {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot,
			"The Lease in which the sidecar records its snapshots does not exist yet")
	}
	if in.Observation.IsElsewhere(lease) {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonWaitingForFirstSnapshot,
			fmt.Sprintf("Waiting for all members to use %s; the recorded snapshots are in %s", in.Observation.StoreLocation, lease.Store))
	}

	return nil
}

// isUnchangedSince is true if the snapshot has the latest revision of all reachable members. The sidecar takes no other full
// snapshot before a new revision exists.
func (in Input) isUnchangedSince(lease etcdcluster.Lease) bool {
	revision, err := strconv.ParseInt(lease.Holder, 10, 64)
	if err != nil {
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

// newestFull returns the time of the newest full snapshot, as the start of a message.
func newestFull(lease etcdcluster.Lease) string {
	return "The newest full snapshot is of " + stamp(lease.RenewTime)
}

// nextFull returns the time at which the first full snapshot after the given time is due, as the end of a message. Callers pass
// the time of the last snapshot, so that the message changes only with a new snapshot. Empty: no snapshot is due.
func (in Input) nextFull(after time.Time) string {
	next := nextFiring(helper.FullSnapshotSchedule(in.Etcd), after)
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
	return condition(druidv1alpha1.ConditionTypeFullSnapshotReady, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonNothingToSnapshot, message)
}

// wasUnchangedAt is true if the previous message reported that no full snapshot was needed when it was due. The sidecar then
// takes none before the next one is due. Only the previous message has that information.
func (in Input) wasUnchangedAt(lease etcdcluster.Lease, due time.Time) bool {
	before := Find(in.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeFullSnapshotReady)

	return before != nil && (before.Message == nothingChanged(lease) || before.Message == nothingHadChanged(due))
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
