// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// provenPeriods is the number of periods after which a proof is outdated.
const provenPeriods = 2

// drillFaults are the consequences of what a restore drill has found, by reason.
var drillFaults = map[string]string{
	druidv1alpha1.ReasonSnapshotDamaged:       "A snapshot is damaged. A restore fails, or lacks all later writes",
	druidv1alpha1.ReasonEventsMissing:         "Events are missing between two snapshots. A restore fails, or lacks these writes",
	druidv1alpha1.ReasonDeltaSnapshotsOverlap: "Two delta snapshots contain the same events. A restore can fail or lose events",
	druidv1alpha1.ReasonHistoriesDiffer:       "The snapshots contain writes that the cluster has lost, or lack an event. A restore mixes different histories",
	druidv1alpha1.ReasonHashDiffers:           "The snapshots contain other data than the cluster. A restore changes data",
	druidv1alpha1.ReasonMembersDiffer:         "The members have different data, so that no snapshot is proven. The snapshots contain the data of one of them",
	druidv1alpha1.ReasonNoSnapshot:            "The store contains no full snapshot. Nothing can be restored",
	druidv1alpha1.ReasonRestoreFailed:         "The sidecar cannot restore the snapshots, for example because a lease expired during the restore",
	druidv1alpha1.ReasonRestoreDiffers:        "The sidecar restores other data than the snapshots contain, for example without an event whose lease expired during the restore",
}

// RestoreProven is True if the last restore drill has proven the store. It is False if the drill has found a fault, or if the proof is outdated.
// It is Unknown if the only drill was incomplete, or if something blocks the first scheduled one. A later drill that is incomplete changes only the
// message. Nil: there is no store, or no drill has ended.
func RestoreProven(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeRestoreProven
	record, store := in.Observation.State.RestoreDrill, in.Observation.StoreLocation
	if record == nil || !helper.IsStoreConfigured(in.Etcd) {
		return nil
	}
	if fault := record.FaultIn(store); fault != nil {
		return condition(conditionType, druidv1alpha1.ConditionFalse, fault.Reason, drillFault(*fault, record.RepairOf(store)))
	}
	isOutdated := func(since time.Time) bool {
		return record.Period > 0 && record.Blocked == "" && later(since, record.Since).Before(in.Now.Add(-provenPeriods*time.Duration(record.Period)))
	}
	switch proof := record.ProofFor(store); {
	case proof != nil && isOutdated(proof.ProvenAt):
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonProofOutdated, fmt.Sprintf(
			"A restore was last proven at %s, and a drill is scheduled every %s%s. Request one with kubectl etcd restore-drill", stamp(proof.ProvenAt), time.Duration(record.Period), incomplete(record.Last)))
	case proof != nil:
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonRestoreProven, proven(*proof)+incompleteAfter(*proof, record.Last)+blocked(record.Blocked))
	case isOutdated(record.Since):
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonProofOutdated, fmt.Sprintf(
			"No restore was proven since %s, and a drill is scheduled every %s%s. Request one with kubectl etcd restore-drill", stamp(record.Since), time.Duration(record.Period), incomplete(record.Last)))
	case record.Last != nil && record.Last.Reason == druidv1alpha1.ReasonDrillIncomplete:
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonDrillIncomplete, "No restore was proven"+incomplete(record.Last)+blocked(record.Blocked))
	case record.Period > 0 && record.Blocked != "":
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonDrillPending, "No restore was proven"+blocked(record.Blocked))
	default:
		return nil
	}
}

// blocked returns why no scheduled drill can run, as the end of a message. Empty: one can.
func blocked(reason string) string {
	if reason == "" {
		return ""
	}

	return ". No drill is scheduled now: " + reason
}

// later returns the later time.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}

// drillFault returns the message about a fault.
func drillFault(fault state.DrillResult, repair *state.DrillRepair) string {
	text := drillFaults[fault.Reason]
	if text == "" {
		text = fault.Reason
	}

	return fmt.Sprintf("%s. The drill of %s reports: %s. %s", text, stamp(fault.EndedAt), fault.Message, afterFault(fault, repair))
}

// afterFault returns what the operator does after a fault, and what the reader has to do.
func afterFault(fault state.DrillResult, repair *state.DrillRepair) string {
	const runbook = "Keep all volumes of the members, and follow the runbook of alert EtcdRestoreNotProven"
	switch {
	case !fault.IsRepairable():
		return "The operator takes no full snapshot: the sidecar would delete the snapshots before it, and they can be the only correct data. " + runbook
	case fault.Repeats || repair != nil && !repair.SnapshotAt.IsZero() && fault.EndedAt.After(repair.SnapshotAt):
		return "A full snapshot did not help: the drill after it has failed too. " + runbook
	case repair != nil && !repair.SnapshotAt.IsZero():
		return fmt.Sprintf("The operator took a full snapshot at %s, and repeats the drill. Keep all volumes of the members until the condition is True", stamp(repair.SnapshotAt))
	case repair != nil && repair.Failures > 0:
		return fmt.Sprintf("The full snapshot of the operator has failed, at last at %s: %s. It is repeated. %s", stamp(repair.FailedAt), repair.Failure, runbook)
	default:
		return "The operator takes a full snapshot, and repeats the drill. Keep all volumes of the members until the condition is True"
	}
}

// proven returns the message about a proof.
func proven(proof state.DrillProof) string {
	before := "The store contained all data before the drill too"
	if proof.MissingRevisions > 0 {
		before = fmt.Sprintf("Without the drill, the store would have lacked %d revisions of the last %s", proof.MissingRevisions, time.Duration(proof.DataAge))
	}

	return fmt.Sprintf("At %s, snapshot %s and earlier ones contained the data of revision %d, with hash %d. The sidecar restored them in %s. %s",
		stamp(proof.ProvenAt), proof.Snapshot, proof.Revision, proof.Hash, time.Duration(proof.RestoreTime), before)
}

// incompleteAfter returns that a drill after the proof was incomplete, as the end of a message. Empty: there was none.
func incompleteAfter(proof state.DrillProof, last *state.DrillResult) string {
	if last == nil || !last.EndedAt.After(proof.ProvenAt) {
		return ""
	}

	return incomplete(last)
}

// incomplete returns that the last drill was incomplete, as the end of a message. Empty: it was not.
func incomplete(last *state.DrillResult) string {
	if last == nil || last.Reason != druidv1alpha1.ReasonDrillIncomplete {
		return ""
	}

	return fmt.Sprintf(". The drill of %s was incomplete: %s", stamp(last.EndedAt), last.Message)
}
