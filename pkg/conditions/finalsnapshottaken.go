// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// FinalSnapshotTaken is True when a full snapshot holds all that was written before it was asked for, and the members were stopped
// then. Nil: the members run, or there is no store. It belongs to the etcd controller, which has the snapshot taken.
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
		reason = druidv1alpha1.ReasonSnapshotNoData
	}

	return condition(druidv1alpha1.ConditionTypeFinalSnapshotTaken, status, reason, "The members were stopped with "+snapshot.String()+rest)
}

// FinalSnapshotPending says that a full snapshot is waited for, and what it failed with before.
func FinalSnapshotPending(decision plan.Plan, calls etcdcluster.SnapshotCalls) *druidv1alpha1.Condition {
	status, reason, message := druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonSnapshotPending, "A full snapshot is being taken: "+decision.Reason
	if calls.Error != "" {
		status, reason, message = druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonSnapshotFailed, calls.Error+" ("+decision.Reason+")"
	}

	return condition(druidv1alpha1.ConditionTypeFinalSnapshotTaken, status, reason, message)
}

// DeletionProceeds says with what snapshot the volumes of an Etcd may be deleted. It is what the deletion remembers, since all
// else is deleted with the cluster.
func DeletionProceeds(snapshot state.FinalSnapshot) *druidv1alpha1.Condition {
	status, rest := druidv1alpha1.ConditionFalse, ""
	if snapshot.Snapshot != nil {
		status, rest = druidv1alpha1.ConditionTrue, "; what was written after that is not in it"
	}

	return condition(druidv1alpha1.ConditionTypeFinalSnapshotTaken, status, druidv1alpha1.ReasonDeletionProceeds, "The volumes are deleted with "+snapshot.String()+rest)
}
