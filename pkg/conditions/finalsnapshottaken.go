// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// FinalSnapshotTaken is True if the members were stopped after a full snapshot of all data that was written before its request. It is
// also True if there was no data.
// Nil: the members are running, or there is no backup store. The etcd controller takes the snapshot and writes the condition.
func FinalSnapshotTaken(snapshot *state.FinalSnapshot) *druidv1alpha1.Condition {
	if snapshot == nil {
		return nil
	}
	status, reason, rest := druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSnapshotFailed, ""
	switch {
	case snapshot.Snapshot != nil:
		rest = "; what was written after that is on the volumes alone"
		status, reason = druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSnapshotVerified
	case snapshot.Missing == state.SnapshotSkipped:
		reason = druidv1alpha1.ReasonSnapshotSkipped
	case snapshot.Missing == state.SnapshotNoData:
		status, reason = druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonNoDataToSnapshot
	case snapshot.Missing == state.SnapshotRolledBack:
		reason = druidv1alpha1.ReasonSnapshotRolledBack
	}

	return condition(druidv1alpha1.ConditionTypeFinalSnapshotTaken, status, reason, "The members were stopped with "+snapshot.String()+rest)
}

// FinalSnapshotPending returns the condition while the operator waits for a full snapshot, or for the comparison of an earlier one with the
// volumes. It has the error of the previous attempt. rolledBack is true if no snapshot counts because the cluster has lost acknowledged writes.
func FinalSnapshotPending(decision plan.Plan, calls etcdcluster.SnapshotAttempts, rolledBack bool) *druidv1alpha1.Condition {
	status, reason, message := druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonSnapshotPending, "A full snapshot is being taken: "+decision.Reason
	switch {
	case rolledBack:
		status, reason, message = druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSnapshotRolledBack, "Waiting for "+decision.WaitsFor+": "+decision.Reason
	case decision.Stage == plan.StageHalted:
		status, reason, message = druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSnapshotFailed, "Waiting for "+decision.WaitsFor+": "+decision.Reason
	case decision.Stage == plan.StageObserve:
		message = "Waiting for " + decision.WaitsFor + ": " + decision.Reason
	case calls.Error == "" && decision.Step == nil && !calls.Running:
		message = "A full snapshot is pending; the operator waits for " + decision.WaitsFor + " (" + decision.Reason + ")"
	case calls.Error != "":
		status, reason, message = druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSnapshotFailed, calls.Error+" ("+decision.Reason+")"
	}

	return condition(druidv1alpha1.ConditionTypeFinalSnapshotTaken, status, reason, message)
}

// DeletionApproved returns the condition with the snapshot that allows the deletion of the volumes. It is the persistent record
// of a deletion, because all other objects of the cluster are deleted.
func DeletionApproved(snapshot state.FinalSnapshot) *druidv1alpha1.Condition {
	status, rest := druidv1alpha1.ConditionFalse, ""
	switch {
	case snapshot.Snapshot == nil:
	case snapshot.Snapshot.LastRevision > 0:
		status, rest = druidv1alpha1.ConditionTrue, fmt.Sprintf("; etcd has rejected all writes since revision %d, and the store has every write before", snapshot.Snapshot.LastRevision)
	default:
		status, rest = druidv1alpha1.ConditionTrue, "; no volume has a higher revision"
	}

	return condition(druidv1alpha1.ConditionTypeFinalSnapshotTaken, status, druidv1alpha1.ReasonDeletionApproved, "The volumes are deleted with "+snapshot.String()+rest)
}

// IsDeletionApproved is true if the condition FinalSnapshotTaken records that the volumes may be deleted. Nil: it does not.
func IsDeletionApproved(condition *druidv1alpha1.Condition) bool {
	return condition != nil && condition.Reason == druidv1alpha1.ReasonDeletionApproved
}
